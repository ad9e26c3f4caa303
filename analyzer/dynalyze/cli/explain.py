"""`dynalyze explain`: the main job."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dynalyze.cli.options import (
    artifacts_option,
    compile_asked,
    compile_options,
    output_options,
    target_of,
    target_options,
    transformers_options,
)

if TYPE_CHECKING:
    from dynalyze.bench.plan import Plan
    from dynalyze.capture.bench.protocol import Work
    from dynalyze.launch.spec import TargetSpec

_OUTPUTS = ("json_file", "html_file", "fail_on")
_TIMED_SHARE = 1 / 15
"""Of the budget: what is timed, in all pairs together. The rest goes into getting processes ready."""


@click.command()
@target_options
@compile_options
@transformers_options
@output_options
@artifacts_option
@click.option(
    "--stop-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End the run once nothing new has compiled for this long.",
)
@click.option(
    "--provenance",
    is_flag=True,
    help="Have Inductor track which lines each kernel came from. It cost nothing measurable on a small network.",
)
@click.option("--no-bench", is_flag=True, help="Do not measure how much faster the compiled model is.")
@click.option(
    "--bench-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The most that measuring its speed may take in all, once the report is written.",
)
@click.pass_context
def explain(context: click.Context, /, **options: Any) -> int:
    """Run TARGET under torch.compile and explain what the compiler did.

    \b
    TARGET is
      model.py           a program, unchanged; ARGS after -- go to it
      model.py:NAME      a module, a class or a function, with --input
      package.mod:NAME   the same from an importable module
      -m package.mod     a module, run as python -m would
      hf:NAME            a class of transformers, a local folder or a hub id:
                         built small, with random weights

    A program that compiles something is observed. One that compiles nothing has its outermost modules compiled
    in its own calls; --compile chooses others. One that only defines `model` and `example_inputs` has those compiled.

    Without an output option the page goes to dynalyze-reports/ in the current directory.
    """
    from dynalyze.bench.measure import add_bench
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.launch.observe import Observation, observed

    target = target_of(context)
    outputs = Outputs.from_options(options, target.stem, target.path)
    observation = Observation(
        target=target,
        options=compile_asked(context),
        timeout=options["timeout"],
        stop_after=options["stop_after"],
        python=options["python"],
        quiet=options["quiet_target"],
        command=tuple(sys.argv[1:]),
        provenance=options["provenance"],
        bundle=not options["no_bench"],
    )
    with Interrupts(), observed(observation, outputs.keep()) as seen:
        if not options["no_bench"]:
            plan = within(options["bench_seconds"], short_bench(options, target), bench_command(context))
            add_bench(seen, target, plan, before=lambda note: outputs.publish_early(seen.report, note))
        return outputs.publish(seen.report)


def within(seconds: float, plan: Plan, more_time: str) -> Plan:
    """The plan with a budget of wall time; `more_time` is the command that measures without it."""
    return replace(plan, total=seconds, seconds=seconds * _TIMED_SHARE, more_time=more_time)


def bench_command(context: click.Context) -> str:
    """The command line of `dynalyze bench` for the same target, with the options that it has too."""
    from dynalyze.cli.bench import bench

    known = {name for each in bench.params for name in each.opts}
    words: list[str] = []
    for each in context.command.params:
        name = each.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and isinstance(each, click.Option) and name not in _OUTPUTS and known.intersection(each.opts):
            words += _given(each, context.params[name])
    positional = [value for value in (context.params["target"], *context.params["arguments"]) if value is not None]
    target, arguments = ([], positional) if context.params["module"] else (positional[:1], positional[1:])
    return shlex.join(["dynalyze", "bench", *target, *words, *(["--", *arguments] if arguments else [])])


def _given(option: click.Option, value: Any) -> list[str]:
    """An option as it stands on the command line."""
    if isinstance(value, bool):
        return [(option.opts if value else option.secondary_opts)[0]]
    values = value if isinstance(value, (tuple, list)) else [value]
    return [word for each in values for word in (option.opts[0], str(each))]


def short_bench(options: dict[str, Any], target: TargetSpec) -> Plan:
    """Eager against the compile that was explained."""
    from dynalyze.bench.plan import Plan
    from dynalyze.bench.stats import MIN_PAIRS
    from dynalyze.capture.bench.protocol import Configuration
    from dynalyze.capture.settings import CompileArguments, names_of

    same = ("device", "dtype", "train", "timeout", "python", "static_cache", "new_tokens")
    return Plan(
        source={},
        configurations=(Configuration("default", **{name: options[name] for name in names_of(CompileArguments)}),),
        works=_explained(options, target),
        seconds=options["bench_seconds"],
        pairs=MIN_PAIRS,
        quiet=options["quiet_target"],
        memory=False,
        as_called=options["train"] is None,
        **{key: options[key] for key in same},
    )


def _explained(options: dict[str, Any], target: TargetSpec) -> tuple[Work, ...]:
    """The one workload that was explained."""
    from dynalyze.bench.plan import works
    from dynalyze.capture.bench.protocol import Work

    asked = target.asked
    if asked is None or (asked.phase == "forward" and options["train"]):
        return works(None, options["batch"], options["sequence"], train=options["train"])
    return (Work(asked.phase, asked.batch, asked.sequence),)
