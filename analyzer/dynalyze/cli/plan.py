"""`dynalyze plan`: what to compile, and how, for so many calls or seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.capture.settings import CompileArguments, ModelBuild, names_of
from dynalyze.cli.files import read_report
from dynalyze.cli.options import (
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
    from dynalyze.bench.choice import Wish
    from dynalyze.bench.histogram import Histogram
    from dynalyze.bench.plan import Plan
    from dynalyze.bench.run import Benchmarks
    from dynalyze.capture.shapes import Dim
    from dynalyze.report import Report
    from dynalyze.report.plans import CompilePlan

_PAIRS, _PAIR_SECONDS = 8, 2.0
"""Pairs of processes of those ways that are close to the best, and timed seconds of each."""

_CLOSING = 5.0
"""Seconds of the budget for ending processes and writing the report."""

_ENOUGH = 300.0
"""Seconds of a budget that are advised at least."""

_NOTHING_MEASURED = 4

_LEAST_BUDGET = 10.0
"""Seconds that are left to measure in, however long a program ran before."""


@click.command()
@target_options
@compile_options
@model_options
@report_options
@count_option("--calls", "How many calls a process makes.")
@seconds_option("--seconds", "How long a process lives: as many calls as possible in this time.")
@seconds_option("--start-up", "How long the first calls may take, until they are steady.")
@seconds_option("--budget", "How long the measuring may take.", 300.0)
@click.option(
    "--configs", metavar="LIST",
    help="The ways to consider: those of `dynalyze bench`, and `layers`. [default: what makes sense on the device]",
)  # fmt: skip
@click.option("--phase", metavar="PHASE", help="forward, train; of a language model prefill, decode, generate.")
@count_option("--batch", "Batch size of a language model or of hf:NAME.")
@count_option("--sequence", "Length of its prompt or of its inputs.")
@click.option(
    "--shapes", "shapes_file", metavar="FILE",
    help="The shapes of production and how often each comes: a CSV, a log, or a report.",
)  # fmt: skip
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=INPUT:AXIS",
    help="Which input has a size of --shapes: batch=input_ids:0; repeatable.",
)  # fmt: skip
@click.option("--rerun", is_flag=True, help="Run a program again in every process, as `dynalyze bench --rerun`.")
@count_option("--threads", "Threads of torch on the CPU.")
@click.pass_context
def plan(context: click.Context, /, **options: Any) -> int:
    """Recommend what of TARGET to compile, and how, for so many calls or seconds: the whole, its repeated blocks, its
    layers, with which mode, or nothing.

    \b
    dynalyze plan model.py:Net --input "torch.randn(2, 8)" --calls 1000
    dynalyze plan serve.py --seconds 3600 --start-up 30
    dynalyze plan hf:BertModel --shapes shapes.csv
    dynalyze plan bench.json --calls 1000     of what dynalyze bench or plan measured

    Each way is started with empty caches and with warm ones, and takes turns with eager. Ways that cannot win any more
    are not measured further. Without --calls, --seconds and --start-up it says from how many calls on which is best.

    Without an output option the page goes to dynalyze-reports/ in the current directory.
    """
    from dynalyze.bench.choice import Wish
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.launch.shape_options import read_dims

    if options["calls"] is not None and options["seconds"] is not None:
        raise UsageError("--calls and --seconds exclude each other: say how many calls, or how long")
    wish = Wish(options["calls"], options["seconds"], options["start_up"])
    dims = read_dims(options["dims"])
    if dims and options["shapes_file"] is None:
        raise UsageError("--dim names an input that has a size of --shapes, which is not given")
    shapes = _histogram(options["shapes_file"], dims)
    saved = options["target"] or ""
    if saved.endswith(".json") and not options["module"]:
        from dynalyze.cli.options import check_fail_on

        check_fail_on(options["fail_on"])
        outputs = Outputs(options, f"{Path(saved).stem}.plan", saved)
        return outputs.publish(_of_saved(saved, wish, shapes, dims))
    target = target_of(context, names_of(ModelBuild))
    wanted = _plan(options)
    outputs = Outputs(options, f"{target.stem}.plan", target.path)
    with Interrupts():
        from dynalyze.bench.measure import measure

        doing = _Measuring(wish, _versions(wanted, shapes), options["budget"])
        report = measure(target, wanted, tuple(sys.argv[1:]), doing)
        report.plan = doing.plan(report)
        _add_shapes(report, shapes, dims, doing.versions)
        status = outputs.publish(report)
        return status if report.plan.points or status != 0 else _NOTHING_MEASURED


class _Measuring:
    """Measures what a wish needs to know, within a budget that begins now."""

    def __init__(self, wish: Wish, versions: Mapping[str, int], budget: float) -> None:
        from dynalyze.bench.budget import Found

        self._wish = wish
        self._budget = budget
        self._ends = time.monotonic() + budget - _CLOSING
        self._found = Found()
        self.versions = dict(versions)

    def __call__(self, wanted: Plan) -> Benchmarks:
        from dynalyze.bench.budget import measure_ways

        left = max(_LEAST_BUDGET, self._ends - time.monotonic())
        return measure_ways(replace(wanted, total=left), self._wish.in_passes, self.versions, self._found)

    def plan(self, report: Report) -> CompilePlan:
        from dynalyze.bench.choice import compile_plan

        found = compile_plan(report.measurements, self._wish, versions=self.versions, lines=self._found.lines)
        found.not_measured += self._found.not_measured
        found.budget = self._budget
        if not found.points:
            found.problem, found.remedy = why_nothing_was_measured(report, self._budget)
        return found


def why_nothing_was_measured(report: Report, budget: float) -> tuple[str, str]:
    """Why no way was measured, and what to do about it."""
    reasons = [each.reason for each in report.measurements if each.reason]
    late = any("time was up" in reason for reason in reasons)
    if report.outcome.status == "complete" and (late or not reasons):
        return (
            f"the {budget:g} s of --budget were over before eager and one way of compiling had been measured",
            f"give it more: --budget {max(_ENOUGH, 4 * budget):g}; or measure fewer ways: --configs default",
        )
    if reasons:
        return reasons[0], "" if "`" in reasons[0] else "`dynalyze bench` says more of each way"
    return report.outcome.message, "run `dynalyze explain` for what ended it"


def _plan(options: dict[str, Any]) -> Plan:
    """What is measured; what is run is not in it yet."""
    from dynalyze.bench.budget import names
    from dynalyze.bench.plan import Plan, works
    from dynalyze.capture.bench.protocol import Configuration

    default = Configuration("default", **{name: options[name] for name in names_of(CompileArguments)})
    sizes = (None if options[name] is None else str(options[name]) for name in ("batch", "sequence"))
    return Plan(
        source={},
        configurations=None if options["configs"] is None else names(options["configs"], default),
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


def _versions(wanted: Plan, shapes: Histogram | None) -> dict[str, int]:
    """How often each way compiles for the shapes."""
    if shapes is None:
        return {}
    from dynalyze.bench.budget import PARTS, ways
    from dynalyze.bench.histogram import versions_of
    from dynalyze.capture.bench.protocol import AS_WRITTEN

    known = wanted.configurations or ways("cuda", wanted.default)
    return versions_of(shapes, [*(each.name for each in known), PARTS, AS_WRITTEN])


def _histogram(file: str | None, dims: tuple[Dim, ...]) -> Histogram | None:
    if file is None:
        return None
    from dynalyze.bench.histogram import read_histogram, shapes_of_report
    from dynalyze.files.read_write import read_input

    if file.endswith(".json"):
        return shapes_of_report(read_report(Path(file)), file)
    try:
        text = read_input(Path(file)).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    return read_histogram(text, file, [dim.name for dim in dims])


def _of_saved(file: str, wish: Wish, shapes: Histogram | None, dims: tuple[Dim, ...]) -> Report:
    """The plan that the measurements of a report come to."""
    from dynalyze.bench.choice import compile_plan
    from dynalyze.bench.histogram import versions_of
    from dynalyze.words.bench import by_workload

    report = read_report(Path(file))
    items = next(iter(by_workload(report.measurements).values()), [])
    before = report.plan
    lines = {each.configuration: each.lines for each in before.points} if before is not None else {}
    versions = versions_of(shapes, [each.configuration for each in items]) if shapes is not None else {}
    report.plan = compile_plan(items, wish, versions=versions, lines=lines)
    if not report.plan.points:
        raise UsageError(
            f"{file}: no measurements of eager and of a compiled configuration in it; dynalyze bench --json makes them"
        )
    _add_shapes(report, shapes, dims, versions)
    return report


def _add_shapes(report: Report, shapes: Histogram | None, dims: tuple[Dim, ...], versions: Mapping[str, int]) -> None:
    if shapes is None or report.plan is None:
        return
    from dynalyze.bench.choice import points_of
    from dynalyze.bench.histogram import shape_plan

    calls = next((each.calls for each in report.measurements), 1)
    report.plan.shapes = shape_plan(shapes, points_of(report.measurements, versions), dims, calls)
