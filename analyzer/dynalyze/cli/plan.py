"""`dynalyze plan`: what to compile, and how, for so many calls or seconds."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.capture.settings import CompileArguments, ModelBuild, names_of
from dynalyze.cli.files import read_report
from dynalyze.cli.options import (
    Sectioned,
    check_fail_on,
    compile_options,
    count_option,
    model_options,
    report_options,
    seconds_option,
    target_of,
    target_options,
)
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.bench.choice import PlanRequest
    from dynalyze.bench.plan import Plan
    from dynalyze.bench.run import Benchmarks
    from dynalyze.bench.shapes import Histogram
    from dynalyze.capture.shapes import Dim
    from dynalyze.launch.spec import TargetSpec
    from dynalyze.report import Report
    from dynalyze.report.plans import CompilePlan

_PAIRS, _PAIR_SECONDS = 3, 2.0
"""Pairs of processes of each way, and timed seconds of each."""

_CLOSING, _LEAST_BUDGET = 5.0, 10.0
"""Seconds for ending processes and writing the report, and those left to measure in however long a program ran."""

_ENOUGH = 300.0
"""Seconds of a budget that are advised at least."""

_NOTHING_MEASURED = 4


@click.command(cls=Sectioned)
@target_options
@compile_options
@model_options
@report_options
@count_option("--calls", "How many calls a process makes.")
@seconds_option("--lifetime", "How long a process lives: as many calls as possible in this time.")
@seconds_option("--start-up", "How long the first calls may take, until they are steady.")
@seconds_option("--bench-seconds", "How long the measuring may take.", 300.0)
@click.option(
    "--configs", metavar="LIST",
    help="The ways to consider: those of `dynalyze bench`. [default: what makes sense on the device]",
)  # fmt: skip
@click.option("--phase", metavar="PHASE", help="forward, train; of a language model prefill, decode, generate.")
@count_option("--batch", "Batch size of a library's model, as hf:NAME.")
@count_option("--sequence", "Length of its prompt or of its inputs.")
@click.option(
    "--histogram", "--shapes", "shapes_file", metavar="FILE",
    help="The shapes of production and how often each comes: a CSV, a log, or a report.",
)  # fmt: skip
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=INPUT:AXIS",
    help="Which input has a size of --histogram: batch=input_ids:0; repeatable.",
)  # fmt: skip
@click.option("--rerun", is_flag=True, help="Run a program again in every process, as `dynalyze bench --rerun`.")
@count_option("--threads", "Threads of torch on the CPU.")
@click.pass_context
def plan(context: click.Context, /, **options: Any) -> int:
    """Recommend what of TARGET to compile, and how, for so many calls or seconds: the whole, its repeated blocks,
    with which mode, or nothing.

    \b
    dynalyze plan model.py:Net --input "torch.randn(2, 8)" --calls 1000
    dynalyze plan serve.py --lifetime 3600 --start-up 30
    dynalyze plan hf:BertModel --histogram shapes.csv
    dynalyze plan bench.json --calls 1000     of what dynalyze bench or plan measured

    Each way is started with empty caches and with warm ones, and takes turns with eager, as `dynalyze bench` does it.
    Without --calls, --lifetime and --start-up it says from how many calls on which is best. With --histogram it says
    which sizes to pad to, and measures a call of each.

    Without an output option the page goes to dynalyze-reports/.
    """
    from dynalyze.bench.choice import PlanRequest
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.launch.shape_options import read_dims

    if options["calls"] is not None and options["lifetime"] is not None:
        raise UsageError("--calls and --lifetime exclude each other: say how many calls, or how long")
    request = PlanRequest(options["calls"], options["lifetime"], options["start_up"])
    dims = read_dims(options["dims"])
    if dims and options["shapes_file"] is None:
        raise UsageError("--dim names an input that has a size of --histogram, which is not given")
    shapes = _histogram(options["shapes_file"])
    saved = options["target"] or ""
    if saved.endswith(".json") and not options["module"]:
        check_fail_on(options["fail_on"])
        report = read_report(Path(saved))
        outputs = Outputs(options, f"{Path(saved).stem}.plan", saved)
        _add_plan(report, request, shapes, dims)
        if report.plan is None or not report.plan.points:
            raise UsageError(
                f"{saved}: no measurements of eager and of a compiled configuration in it; dynalyze bench --json makes "
                "them"
            )
        return outputs.publish(report)
    target = target_of(context, names_of(ModelBuild))
    wanted, problem = _with_buckets(_plan(options), shapes, dims, target)
    outputs = Outputs(options, f"{target.stem}.plan", target.path)
    with Interrupts():
        from dynalyze.bench.choice import measure_ways
        from dynalyze.bench.measure import measure

        ends = time.monotonic() + options["bench_seconds"] - _CLOSING

        def measured(ready: Plan) -> Benchmarks:
            return measure_ways(replace(ready, total=max(_LEAST_BUDGET, ends - time.monotonic())), request)

        report = measure(target, wanted, tuple(sys.argv[1:]), measured)
        found = _add_plan(report, request, shapes, dims, problem)
        found.budget = options["bench_seconds"]
        if not found.points:
            found.problem, found.remedy = why_nothing_was_measured(report, options["bench_seconds"])
        status = outputs.publish(report)
        return status if found.points or status != 0 else _NOTHING_MEASURED


def _plan(options: dict[str, Any]) -> Plan:
    """What is measured; what is run is not in it yet."""
    from dynalyze.bench.configurations import configurations
    from dynalyze.bench.plan import Plan, works
    from dynalyze.capture.bench.protocol import Configuration

    default = Configuration("default", **{name: options[name] for name in names_of(CompileArguments)})
    sizes = (None if options[name] is None else str(options[name]) for name in ("batch", "sequence"))
    return Plan(
        source={},
        configurations=None if options["configs"] is None else configurations(options["configs"], default),
        default=default,
        works=works(options["phase"], *sizes, train=options["train"])[:1],
        adds_written=options["configs"] is None,
        rerun=options["rerun"],
        as_called=options["phase"] is None and options["train"] is None,
        pairs=_PAIRS,
        seconds=_PAIRS * _PAIR_SECONDS,
        quiet=options["quiet_target"],
        accuracy=False,
        memory=False,
        **{key: options[key] for key in ("device", "dtype", "train", "threads", "timeout", "python", "allow_effects")},
    )


def _with_buckets(
    wanted: Plan, shapes: Histogram | None, dims: tuple[Dim, ...], target: TargetSpec
) -> tuple[Plan, str]:
    """The plan with a workload for each bucket instead of the target's own; unchanged, with the reason, if its inputs
    cannot be made so large.
    """
    if shapes is None:
        return wanted, ""
    from dynalyze.bench.plan import shaped
    from dynalyze.bench.shapes import bucketed, named_dims

    buckets = [bucket.padded_to for bucket in bucketed(shapes)]
    known = named_dims(buckets[0], dims)
    try:
        each = (shaped(wanted.works, {name: (size,) for name, size in sizes.items()}, known, target)
                for sizes in buckets)  # fmt: skip
        return replace(wanted, works=tuple(work for works in each for work in works), dims=known), ""
    except UsageError as error:
        return wanted, str(error)


def _add_plan(
    report: Report, request: PlanRequest, shapes: Histogram | None, dims: tuple[Dim, ...], problem: str = ""
) -> CompilePlan:
    from dynalyze.bench.choice import compile_plan
    from dynalyze.bench.shapes import shape_plan
    from dynalyze.render.text.bench import by_workload

    report.plan = compile_plan(next(iter(by_workload(report.measurements).values()), []), request)
    if shapes is not None:
        report.plan.shapes = shape_plan(shapes, report.measurements, dims)
        report.plan.shapes.problem = problem
    return report.plan


def why_nothing_was_measured(report: Report, budget: float) -> tuple[str, str]:
    reasons = [each.reason for each in report.measurements if each.reason]
    late = any("time was up" in reason for reason in reasons)
    if report.outcome.status == "complete" and (late or not reasons):
        return (
            f"the {budget:g} s of --bench-seconds were over before eager and one way of compiling had been measured",
            f"give it more: --bench-seconds {max(_ENOUGH, 4 * budget):g}; or measure fewer ways: --configs default",
        )
    if reasons:
        return reasons[0], "" if "`" in reasons[0] else "`dynalyze bench` says more of each way"
    return report.outcome.message, "run `dynalyze explain` for what ended it"


def _histogram(file: str | None) -> Histogram | None:
    if file is None:
        return None
    from dynalyze.bench.shapes import read_histogram, shapes_of_report
    from dynalyze.files.read_write import read_input

    if file.endswith(".json"):
        return shapes_of_report(read_report(Path(file)), file)
    try:
        return read_histogram(read_input(Path(file)).decode("utf-8-sig", "replace"), file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
