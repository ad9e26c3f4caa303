"""Measurements on the page: sentences, tables, drawings, a group for each workload; what a training step keeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from dynalyze.render.text import bench as words
from dynalyze.render.view.links import Anchors, Index, Place, first
from dynalyze.render.view.plots.strips import strip_plot
from dynalyze.render.view.run import Metric
from dynalyze.report import Report
from dynalyze.report.measurements import Accuracy, KeptLine, KeptTensor, Measurement, StepMemory
from dynalyze.text.amounts import exact_size, listed, milliseconds, three_digits
from dynalyze.text.escape import clipped

MAX_ROWS = 100
"""Measurements on the page."""

_MAX_TEXT = 2000
_MAX_NOTES = 40
_MOST_CALLS = 3

Outcome = Literal["faster", "slower", "same", "invalid", "failed", "eager"]


class Table(NamedTuple):
    caption: str
    heads: list[str]
    rows: list[list[str]]

    def without_empty_columns(self) -> Table:
        """What was measured of no row takes no width."""
        kept = [at for at in range(len(self.heads)) if any(row[at] for row in self.rows)]
        return Table(self.caption, [self.heads[at] for at in kept], [[row[at] for at in kept] for row in self.rows])


_MARKS: dict[Outcome, str] = {"faster": "✓", "slower": "!", "same": "=", "invalid": "✕", "failed": "✕", "eager": "·"}


class MeasurementsView:
    def __init__(self, report: Report, anchors: Anchors) -> None:
        shown = first(report.measurements, MAX_ROWS)
        self.groups = [
            GroupView(workload, rows, report.accuracy, anchors)
            for workload, rows in words.by_workload(shown.items).items()
        ]
        self.total, self.omitted = shown.total, shown.omitted
        together = any(each.speedup is not None and each.speedup.one_process for each in report.measurements)
        self.where = (
            "took turns in the program's own process" if together else "ran in separate processes that took turns"
        )


class GroupView:
    """The configurations of one workload. `sentences` are outcome, mark and text of each."""

    def __init__(
        self, workload: words.WorkloadKey, items: list[Measurement], accuracy: list[Accuracy], anchors: Anchors
    ) -> None:
        self.anchor = anchors.claim(f"measured-{words.workload_words(workload)}")
        self.title = words.capital(words.workload_words(workload))
        self.conditions = words.conditions(items)
        said = (words.statement(item, words.accuracy_of(item, accuracy)) for item in items)
        self.sentences = [
            (outcome, _MARKS[outcome], clipped(text, _MAX_TEXT))
            for outcome, text in zip(map(_outcome, items), said, strict=True)
        ]
        self.table = _table(items, accuracy)
        self.details = _details(items)
        self.plot = strip_plot(anchors.claim("plot"), items)
        self.notes = [clipped(note, _MAX_TEXT) for note in words.notes(items)[:_MAX_NOTES]]


def measured_metrics(report: Report) -> list[Metric]:
    """The numbers of the best configuration of the first workload, for the head of the page."""
    best = words.first_best(report.measurements)
    if best is None or best.status != "valid" or best.latency_ms is None or best.eager_latency_ms is None:
        return []
    cost, even, speed = words.compile_cost(best), best.break_even, best.speedup
    unit = "calls" if best.calls == 1 else f"rounds of {best.calls:,} calls"
    median = "median" if best.calls == 1 else f"median of {best.calls:,} calls together"
    known = [
        (f"eager, {median}", milliseconds(best.eager_latency_ms.p50)),
        (f"{clipped(best.configuration, 60)}, {median}", milliseconds(best.latency_ms.p50)),
        ("speedup", words.times(speed.ratio.value) if speed and speed.verdict != "no difference shown" else ""),
        ("to compile, cold", cost.words if cost else ""),
        (f"{unit} until it pays", f"{math.ceil(even.passes):,}" if even and even.passes is not None else ""),
        ("memory", words.more_memory(best.memory) if best.memory else ""),
    ]
    return [Metric(label, value, "#measurements") for label, value in known if value]


def _outcome(item: Measurement) -> Outcome:
    if item.status != "valid":
        return item.status
    if item.speedup is None:
        return "eager"
    return "same" if item.speedup.verdict == "no difference shown" else item.speedup.verdict


def _table(items: Sequence[Measurement], accuracy: Sequence[Accuracy]) -> Table:
    rates = list(dict.fromkeys(name for item in items if item.status == "valid" for name in item.throughput))
    heads = ["Configuration", *map(words.capital, words.HEADS), "Compile, warm caches", *map(words.rate_words, rates)]
    rows = []
    for item in items:
        warm = words.compile_cost(item, warm=True)
        known = item.throughput if item.status == "valid" else {}
        rows.append(
            [item.configuration, *words.cells(item, words.accuracy_of(item, accuracy)), warm.words if warm else "",
             *(three_digits(known[name]) if name in known else "" for name in rates)]
        )  # fmt: skip
    return Table("Results", heads, rows).without_empty_columns()


_RECORDS = {
    "Latency, ms": "latency_ms", "Latency of eager beside it, ms": "eager_latency_ms", "Speedup": "speedup",
    "Starting up": "startup", "Break-even": "break_even", "What torch counted": "counts", "Memory, bytes": "memory",
    "Options": "options",
}  # fmt: skip
"""The parts of a measurement, by caption."""


def _details(items: Sequence[Measurement]) -> list[Table]:
    """Every number of the measurements, under its name in the JSON."""
    tables = []
    for caption, name in _RECORDS.items():
        known = {each.configuration: msgspec.to_builtins(getattr(each, name)) for each in items}
        heads = list(dict.fromkeys(head for values in known.values() for head in values or ()))
        rows = [[who, *(_cell(values.get(head)) for head in heads)] for who, values in known.items() if values]
        table = Table(caption, ["configuration", *(head.replace("_", " ") for head in heads)], rows)
        tables.append(table.without_empty_columns())
    return [table for table in tables if table.rows]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return clipped(", ".join(f"{name} {_cell(each)}" for name, each in value.items()), _MAX_TEXT)
    if isinstance(value, list):
        return ", ".join(map(_cell, value[:_MOST_CALLS]))
    if isinstance(value, float):
        return three_digits(value) if abs(value) >= 0.1 else f"{value:.3g}"
    return f"{value:,}" if type(value) is int else clipped(str(value), _MAX_TEXT)


_MOST_ROWS = 30
_MOST_NAMES = 6


class StepMemoryView:
    """Every configuration whose training step was looked at; falsy where there is none."""

    def __init__(self, report: Report, links: Index) -> None:
        found = [(each, each.step_memory) for each in report.measurements if each.step_memory is not None]
        self.problems = [f"{each.configuration}: {memory.problem}" for each, memory in found if memory.problem]
        self.parts = [StepView(each, memory, links) for each, memory in found if not memory.problem]

    def __bool__(self) -> bool:
        return bool(self.parts or self.problems)


class StepView:
    """One configuration. `totals` are rows of what, eager, compiled and the difference; `omitted` lines have no row."""

    def __init__(self, measured: Measurement, memory: StepMemory, links: Index) -> None:
        self.name = words.workload_name(measured)
        self.lead = f"{words.capital(self.name)}: {words.step_memory(measured)}."
        where = f"Peak, in the {memory.compiled_peak_in}"
        if memory.eager_peak_in != memory.compiled_peak_in:
            where += f" (eager's in the {memory.eager_peak_in})"
        self.totals = [
            (what, exact_size(eager), exact_size(compiled), _difference(compiled - eager))
            for what, eager, compiled in (
                ("Kept for backward", memory.eager_kept, memory.compiled_kept),
                (where, memory.eager_peak, memory.compiled_peak),
            )
        ]
        self.lines = [KeptLineView(each, links) for each in memory.lines[:_MOST_ROWS]]
        self.omitted = len(memory.lines) - len(self.lines) + memory.lines_omitted


class KeptLineView:
    """One line. `tensors` say of each side what is kept there."""

    def __init__(self, line: KeptLine, links: Index) -> None:
        self.place: Place | None = None if line.place is None else links.place(line.place)
        self.code = "" if line.place is None else line.place.code or ""
        self.eager, self.compiled = (
            exact_size(amount) if amount else "" for amount in (line.eager_bytes, line.compiled_bytes)
        )
        self.tensors = [
            f"{side}: {_counted_names([_tensor_name(each) for each in tensors])}"
            for side, tensors in (("eager", line.eager), ("compiled", line.compiled))
            if tensors
        ]
        self.more = _difference(line.compiled_bytes - line.eager_bytes)
        self.again = _counted_names([op.removeprefix("aten.") for op in line.recomputed])


def _tensor_name(tensor: KeptTensor) -> str:
    """A tensor by what made it; in eager by the module that ran."""
    return f"{tensor.op.removeprefix('aten.') or tensor.module} {tensor.dtype} {tensor.shape}".strip()


def _counted_names(names: list[str]) -> str:
    """ "3 mul, exp and 4 more"."""
    counted = Counter(names).most_common()
    return listed([f"{count} {name}" if count > 1 else name for name, count in counted], _MOST_NAMES)


def _difference(difference: int) -> str:
    return f"{'+' if difference > 0 else '−'}{exact_size(abs(difference))}" if difference else "same"
