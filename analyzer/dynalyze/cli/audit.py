"""`dynalyze audit`: whether a target may ship."""

from __future__ import annotations

import datetime
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from dynalyze.cli.explain import short_bench
from dynalyze.cli.files import check_writable, write_whole
from dynalyze.cli.options import (
    asked_of,
    check_fail_on,
    compile_options,
    given_compile_options,
    output_options,
    target_options,
    transformers_options,
)
from dynalyze.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.audit.baseline import Baseline
    from dynalyze.audit.policy import Policy
    from dynalyze.audit.run import Asked
    from dynalyze.report import Report
    from dynalyze.targets.spec import TargetSpec

_COMPILE = ("backend", "mode", "dynamic", "fullgraph", "train", "device", "dtype")


@click.command()
@target_options
@compile_options
@transformers_options
@output_options
@click.option(
    "--policy",
    metavar="FILE",
    help="What is asked of the run, as TOML. [default: [tool.dynalyze.audit] of the nearest pyproject.toml]",
)
@click.option("--baseline", metavar="FILE", help="Findings that are known: they pass, new ones fail.")
@click.option("--update-baseline", is_flag=True, help="Write the findings of this run to --baseline.")
@click.option(
    "--shapes",
    multiple=True,
    metavar="NAME=SIZES",
    help="Sizes that production sends: does anything compile after warm-up? batch=1..8,sequence=128|512; repeatable.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=INPUT:AXIS",
    help="Which input has a size of --shapes, by position or keyword: batch=0:0; repeatable.",
)
@click.option(
    "--attention-matrix", is_flag=True, help="Try every attention implementation with every dtype and cache."
)
@click.option("--no-bench", is_flag=True, help="Measure no speed, no memory and no answers.")
@click.option(
    "--bench-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Timed seconds of the measurement of speed; its processes need more.",
)
@click.pass_context
def audit(context: click.Context, /, **options: Any) -> int:
    """Decide whether TARGET may ship: run it under torch.compile, measure speed, memory and answers, and judge all of
    it by a policy. Exit 1 where it fails.

    TARGET is what `dynalyze explain` takes. Without a policy this is asked: no graph break, no function left in eager,
    no finding that is an error, answers that are wrong by no more than rounding.

    Without an output option the page goes to dynalyze-reports/ in the current directory.
    """
    from dynalyze.audit.run import audit as run_audit
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.progress import progress_line
    from dynalyze.launch.streams import Streams
    from dynalyze.targets.spec import read_target

    check_fail_on(options["fail_on"])
    target = read_target(options["target"], options["module"], options["arguments"], options["inputs"])
    target = asked_of(context, target)
    baseline = _baseline(options)
    policy = _policy(context, options, baseline)
    asked = _asked(context, options, target)
    outputs = Outputs.from_options({**options, "fail_on": "none"}, f"{target.stem}.audit", target.path)
    report = run_audit(asked, _tell, outputs.keep())
    return _concluded(report, policy, baseline, outputs, update=options["update_baseline"])
