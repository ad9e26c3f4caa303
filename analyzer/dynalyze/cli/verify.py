"""`dynalyze verify`: whether a change that somebody made ends graph breaks and changes nothing else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dynalyze.cli.explain import short_bench
from dynalyze.cli.options import (
    Sectioned,
    brief_option,
    observation_of,
    report_options,
    rerun_options,
    seconds_option,
    target_of,
)
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

_PATCHES = (".patch", ".diff")


@click.command(cls=Sectioned)
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@rerun_options
@report_options
@brief_option
@click.option("--no-bench", is_flag=True, help="Do not measure the speedup.")
@seconds_option("--bench-seconds", "Measure the speedup for about this long.", 60.0)
@click.pass_context
def verify(context: click.Context, /, before: str, after: str, **options: Any) -> int:
    """Verify a change that you, or an agent, made. BEFORE is a target of `dynalyze explain`; AFTER is the same file
    changed (beside it, or in another checkout, whose other files count too), or a patch.

    Exit 0 if graph breaks end, none is new, no less is compiled, and the calls and the whole program do the same as
    before; else 1. The program runs once to record its calls, then twice unchanged and once changed: in a sandbox where
    there is one. Without a sandbox a program with outside effects (files, network, processes) is not run again, unless
    --allow-effects is given, and the change is not verified.

    \b
    dynalyze verify model.py model_new.py
    dynalyze verify old/model.py new/model.py -- --batch 4
    dynalyze verify model.py fix.patch
    """
    from dynalyze.cli.outputs import Outputs
    from dynalyze.fix.verify import changed_files, patched_files
    from dynalyze.fix.verify import verify as run_verify
    from dynalyze.launch.interrupts import Interrupts

    arguments = tuple(filter(None, (options["target"], *options["arguments"])))
    context.params.update(target=before, arguments=arguments)
    target = target_of(context)
    path = Path(after.partition(":")[0] if ".py:" in after else after)
    if not path.is_file():
        raise UsageError(f"no such file: {path}; AFTER is the changed file, or a patch")
    changing: AbstractContextManager[dict[str, str]]
    if path.suffix in _PATCHES:
        changing = patched_files(path, Path.cwd())
    elif target.path is None:
        raise UsageError(f"{before} names no file that {after} could take the place of; give a patch")
    else:
        changing = nullcontext(changed_files(Path(target.path), path))
    outputs = Outputs(options, f"{target.stem}.verify", target.path)
    plan = replace(short_bench(options, target), total=None, recorded=False)
    seconds = 0.0 if options["no_bench"] else options["bench_seconds"]
    with Interrupts(), changing as change:
        found = run_verify(observation_of(context, target, bundle=True), plan, change, seconds, say)
        status = outputs.publish(found.report)
    assert found.report.fixed is not None
    return status or int(not found.report.fixed.kept)
