"""`dynalyze explain`: the main job."""

from __future__ import annotations

import sys
from typing import Any

import click

from dynalyze.cli.options import (
    artifacts_option,
    check_fail_on,
    compile_options,
    given_compile_options,
    output_options,
    target_options,
)


@click.command()
@target_options
@compile_options
@output_options
@artifacts_option
@click.option(
    "--stop-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End the run once nothing new has compiled for this long.",
)
@click.option("--no-bench", is_flag=True, help="Do not time the model (this version never does).")
@click.pass_context
def explain(context: click.Context, /, **options: Any) -> int:
    """Run TARGET under torch.compile and explain what the compiler did.

    \b
    TARGET is
      model.py           a program, unchanged; ARGS after -- go to it
      model.py:NAME      a module, a class or a function, with --input
      package.mod:NAME   the same from an importable module
      -m package.mod     a module, run as python -m would

    A program that compiles something is observed. One that compiles nothing has its outermost module calls
    recorded and replayed compiled. One that only defines `model` and `example_inputs` has those compiled.

    Without an output option the page goes to dynalyze-reports/ in the current directory.
    """
    from dynalyze.cli.outputs import Outputs
    from dynalyze.targets.observe import CompileOptions, Observation, observe
    from dynalyze.targets.spec import read_target

    check_fail_on(options["fail_on"])
    target = read_target(options["target"], options["module"], options["arguments"], options["inputs"])
    outputs = Outputs.from_options(options, target.stem, target.path)
    compile_keys = ("backend", "mode", "dynamic", "fullgraph", "train", "device", "dtype")
    observation = Observation(
        target=target,
        options=CompileOptions(**{key: options[key] for key in compile_keys}, given=given_compile_options(context)),
        timeout=options["timeout"],
        stop_after=options["stop_after"],
        python=options["python"],
        quiet=options["quiet_target"],
        command=tuple(sys.argv[1:]),
    )
    return outputs.publish(observe(observation, outputs.keep()))
