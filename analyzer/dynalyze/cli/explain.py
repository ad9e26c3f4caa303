"""`dynalyze explain`: the main job."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dynalyze import registry
from dynalyze.cli.options import (
    Sectioned,
    artifacts_option,
    brief_option,
    is_given,
    observation_of,
    output_options,
    run_options,
    seconds_option,
    target_of,
)

if TYPE_CHECKING:
    from dynalyze.bench.plan import Plan
    from dynalyze.launch.spec import TargetSpec

_OUTPUTS = ("json_file", "html_file", "fail_on", "brief", "verbose")
_ENOUGH = "Ctrl-C ends the program now and reports what was seen; --stop-after 30 does so by itself"
_TIMED_SHARE = 1 / 15
"""Of the budget: what is timed, in all pairs together. The rest goes into getting processes ready."""
_MOST_TIMED = 10.0

_LARGEST_COPY = 1 << 30
"""Bytes of tensors that are written for other processes, unasked; a larger model is timed where it is."""


@click.command(cls=Sectioned)
@run_options
@output_options
@brief_option
@artifacts_option
@seconds_option("--stop-after", "End the run once nothing new has compiled for this long.")
@click.option("--provenance", is_flag=True, help="Have Inductor track which lines each kernel came from.")
@click.option("--no-bench", is_flag=True, help="Do not measure the compiled model's speedup.")
@seconds_option(
    "--bench-seconds", "The most that measuring its speed may take in all, once the report is written.", 30.0
)
@click.pass_context
def explain(context: click.Context, /, **options: Any) -> int:
    """Run TARGET under torch.compile and explain what the compiler did.

    \b
    TARGET is
      model.py           a program, unchanged; ARGS after -- go to it
      model.ipynb        a notebook: its code cells, in order
      model.py:NAME      a module, a class or a function, with --input
      package.mod:NAME   the same from an importable module
      -m package.mod     a module, run as python -m would
      hf:NAME            a class of transformers, a local folder or a hub id
      timm:NAME, diffusers:NAME   a model of these; all small, random weights

    A program that compiles something is observed. One that compiles nothing has its outermost modules compiled
    in its own calls; --compile chooses others. One that only defines `model` and `example_inputs` has those compiled.

    Without an output option the page goes to dynalyze-reports/.
    """
    from dynalyze.bench.measure import add_bench, started_beside
    from dynalyze.capture.overlay import NOTEBOOK
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.launch.observe import observed

    target = target_of(context)
    outputs = Outputs(options, target.stem, target.path)
    observation = observation_of(
        context, target, stop_after=options["stop_after"], hint=_ENOUGH, provenance=options["provenance"],
        bundle=not options["no_bench"], largest_copy=_LARGEST_COPY, seconds_in_turns=options["bench_seconds"],
        overrides=True,
    )  # fmt: skip
    with Interrupts(), ExitStack() as bench:
        plan, pool = None, None
        if not options["no_bench"]:
            seconds = options["bench_seconds"]
            plan = replace(
                short_bench(options, target), seconds=seconds * _TIMED_SHARE,
                more_time=shlex.join(["dynalyze", *same_call(context, "bench", (*_OUTPUTS, "bench_seconds"))]),
            )  # fmt: skip
            pool = bench.enter_context(started_beside(target, plan))
        with observed(observation, outputs.keep()) as seen:
            if not (target.path or "").endswith(NOTEBOOK):  # A notebook is no file of Python's to change.
                seen.report.fix_command = same_call(context, "fix")
            if plan is not None:
                ready = add_bench(seen, target, plan, lambda note: outputs.publish_early(seen.report, note), pool)
                for feature in registry.modules("explain") if ready is not None else ():
                    feature.go_on(seen, ready, pool)
            else:
                seen.report.answers_unchecked = "--no-bench"
            bench.close()
            return outputs.publish(seen.report)


def same_call(context: click.Context, name: str, but: Collection[str] = _OUTPUTS) -> list[str]:
    """The command line of another command for the same target, with the options that both have, without `but`."""
    command = context.find_root().command
    assert isinstance(command, click.Group)
    other = command.get_command(context, name)
    if other is None:  # A feature that was taken out.
        return []
    known = {option for each in other.params for option in each.opts}
    words: list[str] = []
    for each in context.command.params:
        option = each.name or ""
        shared = isinstance(each, click.Option) and option not in but and known.intersection(each.opts)
        if not shared or not is_given(context, option):
            continue
        if isinstance(value := context.params[option], bool):
            words.append((each.opts if value else each.secondary_opts)[0])
        else:
            values = value if isinstance(value, (tuple, list)) else [value]
            texts = (str(one).removesuffix(".0") if isinstance(one, float) else str(one) for one in values)
            words += [word for text in texts for word in (each.opts[0], text)]
    positional = [value for value in (context.params["target"], *context.params["arguments"]) if value is not None]
    target, arguments = ([], positional) if context.params["module"] else (positional[:1], positional[1:])
    return [name, *target, *words, *(["--", *arguments] if arguments else [])]


def short_bench(options: dict[str, Any], target: TargetSpec) -> Plan:
    """Eager against the compile that was explained."""
    from dynalyze.bench import SHORT_PAIRS
    from dynalyze.bench.plan import Plan, works
    from dynalyze.capture.bench.protocol import Configuration, Work
    from dynalyze.capture.settings import CompileArguments, names_of

    asked = target.asked
    if asked is None or (asked.phase == "forward" and options["train"]):
        explained = works(None, options["batch"], options["sequence"], train=options["train"])
    else:
        explained = (Work(asked.phase, asked.batch, asked.sequence),)
    same = ("device", "dtype", "train", "timeout", "python", "static_cache", "new_tokens", "allow_effects")
    return Plan(
        source={},
        configurations=(Configuration("default", **{name: options[name] for name in names_of(CompileArguments)}),),
        works=explained,
        total=options["bench_seconds"],
        seconds=min(options["bench_seconds"] * _TIMED_SHARE, _MOST_TIMED),
        pairs=SHORT_PAIRS,
        quiet=True,  # What a repeated call prints was shown when the program made it.
        memory=False,
        recorded=True,
        as_called=options["train"] is None,
        sandboxed=options.get("sandbox") == "on",
        **{key: options[key] for key in same},
    )
