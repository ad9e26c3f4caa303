"""What another torch changes for one program: two runs under two interpreters, and what was measured in turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from dynalyze.comparison.facts import all_seconds
from dynalyze.comparison.pairing import direction
from dynalyze.comparison.reports import ENDINGS
from dynalyze.comparison.types import (
    BreakChange,
    BreakSide,
    Comparison,
    Difference,
    Direction,
    FunctionChange,
    RecompileChange,
)
from dynalyze.report import Kernel, Location, Report
from dynalyze.report.held import FilePath, Message, Name, Quote, Word
from dynalyze.report.measurements import AccuracyVerdict, Speedup

SCHEMA_VERSION = 1
ChangeKind = Literal[
    "ending", "break", "effect", "recompile", "limit", "compilation", "graphs", "kernels", "compile_time", "speed",
    "memory", "outputs",
]  # fmt: skip
MeasureName = Literal[
    "graph_breaks", "recompiles", "graphs", "operations", "kernels", "guards", "compile_seconds", "latency_ms",
    "memory",
]  # fmt: skip
Verdict = Literal["better", "worse", "same", "changed"]
# Facts about how it compiles, which no one but the speed can judge.
_NO_REGRESSION = ("graphs", "kernels")
_SLOWER, _SECONDS = 1.25, 0.5
_LARGER, _BYTES = 1.1, 32 << 20


class Interpreter(msgspec.Struct):
    python: FilePath
    torch: Word


class Change(msgspec.Struct):
    """Something that is not the same. `what` is what it is about: a type of break, a source, a function."""

    kind: ChangeKind
    direction: Direction
    what: Message
    location: Location | None = None
    before: Word = ""
    after: Word = ""
    advice: Message = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for this change in another pair of runs."""
        place = (self.location.file, str(self.location.line)) if self.location is not None else ()
        return self.kind, self.direction, self.what, *place

    @property
    def is_regression(self) -> bool:
        return self.direction == "worse" and self.kind not in _NO_REGRESSION


class Measure(msgspec.Struct):
    """One amount under both; None where it is not known. `changed` is neither better nor worse."""

    name: MeasureName
    before: float | None = None
    after: float | None = None
    verdict: Verdict = "same"


class Outputs(msgspec.Struct):
    """What became of the answers: the verdict of compiled against its own eager, under each, and of the second's eager
    and compiled against the first's. None where that is not known: `note` says why.
    """

    before: AccuracyVerdict | None = None
    after: AccuracyVerdict | None = None
    eager_across: AccuracyVerdict | None = None
    compiled_across: AccuracyVerdict | None = None
    note: Quote = ""


class Tried(msgspec.Struct):
    """A version that was set up; `worse` is None where it was not held against the first one."""

    version: Word
    worse: bool | None = None
    note: Message = ""


class Upgrade(msgspec.Struct):
    """`measures` are amounts, `changes` what came, went or is told as better or worse, the worse first.

    `speed` is the first by the second: above 1 the second is faster. `settings` are torch's own whose values are not
    the same. `comparison` is that of `dynalyze diff` for the first two runs. `versions` and `first_worse` are of a
    search.
    """

    before: Interpreter
    after: Interpreter
    measures: list[Measure]
    changes: list[Change]
    outputs: Outputs
    comparison: Comparison
    speed: Speedup | None = None
    settings: list[Difference] = []
    notes: list[Message] = []
    versions: list[Tried] = []
    first_worse: Word = ""

    @property
    def regressions(self) -> list[Change]:
        return [each for each in self.changes if each.is_regression]


class Measured(msgspec.Struct):
    """What was measured beside the runs; None where it was not."""

    speed: Speedup | None = None
    latency_ms: tuple[float, float] | None = None
    phase: Word = "forward"
    memory: tuple[int, int] | None = None
    outputs: Outputs = msgspec.field(default_factory=Outputs)


def fact_changes(comparison: Comparison, before: Report, after: Report) -> list[Change]:
    """What is not the same in what torch did, as far as it is torch's word on the program and no other wording."""
    found = [*_ending(comparison), *_breaks(comparison), *_recompiles(comparison)]
    for function in (*comparison.compilations.changed, *comparison.compilations.unchanged):
        found += _function(function, before, after)
    return found


def _ending(comparison: Comparison) -> Iterator[Change]:
    one, other = comparison.before.status, comparison.after.status
    if one != other and "interrupted" not in (one, other):
        way = direction(ENDINGS.index(one), ENDINGS.index(other))
        yield Change("ending", way, "how the run ended", before=one, after=other)


def _breaks(comparison: Comparison) -> Iterator[Change]:
    found = comparison.breaks
    told = [side for change in (*found.unchanged, *found.changed) for side in _sides(change)]
    for change in found.new:
        if change.after is not None and not _also_told(change, change.after, told):
            advice = change.advice
            yield Change("break", "worse", change.gb_type, change.after.location, "", change.gb_id or "", advice)
    for change in found.changed:
        if change.before is not None and change.after is not None and change.direction != "same":
            yield Change(
                "effect", change.direction, change.gb_type, change.after.location, change.before.effect,
                change.after.effect, change.advice,
            )  # fmt: skip
    for change in found.fixed:
        if change.before is not None and not _also_told(change, change.before, told):
            yield Change("break", "better", change.gb_type, change.before.location, change.gb_id or "")


def _sides(change: BreakChange) -> Iterator[tuple[str | None, BreakSide]]:
    yield from ((change.gb_id, side) for side in (change.before, change.after) if side is not None)


def _also_told(change: BreakChange, side: BreakSide, told: Sequence[tuple[str | None, BreakSide]]) -> bool:
    """Whether both have this break: an older torch tells no columns, so that several of one line are one to it."""
    at = side.location
    return any(
        gb_id == change.gb_id and (other.location.column is None or at.column is None)
        and (other.location.function, other.location.code) == (at.function, at.code)
        for gb_id, other in told
    )  # fmt: skip


def _recompiles(comparison: Comparison) -> Iterator[Change]:
    found = comparison.recompiles
    lists: tuple[tuple[list[RecompileChange], Direction | None], ...] = (
        (found.new, "worse"), (found.changed, None), (found.fixed, "better"),
    )  # fmt: skip
    for changes, way in lists:
        for change in changes:
            known = change.after or change.before
            assert known is not None
            counts = [str(side.count) if side else "0" for side in (change.before, change.after)]
            kind: ChangeKind = "limit" if change.cause == "limit" else "recompile"
            what = change.function if kind == "limit" else f"{change.function}: {change.source or change.cause}"
            yield Change(kind, way or change.direction, what, known.location, *counts)


def _function(change: FunctionChange, before: Report, after: Report) -> Iterator[Change]:
    """What became of a function that both compiled, or tried to."""
    old, new = change.before, change.after
    if old is None or new is None:
        return
    states = [_state(side.failed, side.eager, side.compiled) for side in (old, new)]
    if states[0] != states[1]:
        ranks = ("compiled", "in eager in part", "in eager", "failed")
        way = direction(*(ranks.index(state) for state in states))
        yield Change("compilation", way, change.function, new.location, *states)
    elif old.graphs != new.graphs:
        yield Change(
            "graphs", direction(old.graphs, new.graphs), change.function, new.location, str(old.graphs), str(new.graphs)
        )
    elif old.kernels is not None and new.kernels is not None and old.kernels != new.kernels:
        yield Change(
            "kernels", direction(old.kernels, new.kernels), change.function, new.location, str(old.kernels),
            str(new.kernels), _fallbacks(before, after) if new.kernels > old.kernels else "",
        )  # fmt: skip


def _state(failed: int, eager: int, compiled: int) -> str:
    if failed:
        return "failed"
    if eager:
        return "in eager in part" if compiled else "in eager"
    return "compiled"


def _fallbacks(before: Report, after: Report) -> str:
    """Operations that Inductor leaves to ATen now and did not before."""

    def left(kernels: list[Kernel]) -> set[str]:
        return {op for kernel in kernels if kernel.kind == "fallback" for op in (kernel.ops or [kernel.name])}

    more = sorted(left(after.kernels) - left(before.kernels))
    return f"Inductor calls these of ATen now, and generated them before: {', '.join(more)}" if more else ""


def counted(before: Report, after: Report, comparison: Comparison, changes: Sequence[Change]) -> list[Measure]:
    """Amounts of both runs. What came and went decides on breaks and recompiles: their number alone does not."""
    sides = [_amounts(report) for report in (before, after)]
    breaks, recompiles = ("break", "effect"), ("recompile", "limit")
    found = [Measure("graph_breaks", sides[0]["graph_breaks"], sides[1]["graph_breaks"], _worst(changes, breaks))]
    times = comparison.recompiles
    found.append(Measure("recompiles", times.before, times.after, _worst(changes, recompiles)))
    for name in ("graphs", "operations", "kernels", "guards"):
        one, other = sides[0][name], sides[1][name]
        same = one == other or one is None or other is None
        found.append(Measure(name, one, other, "same" if same else "changed"))
    return found


def _amounts(report: Report) -> dict[str, Any]:
    guards = [each.guards for each in report.compilations if each.guards is not None]
    return {
        "graph_breaks": len(report.graph_breaks),
        "graphs": len(report.graphs),
        "operations": sum(graph.ops for graph in report.graphs),
        "kernels": sum(kernel.calls for kernel in report.kernels) if report.kernels else None,
        "guards": sum(guards) if guards else None,
    }


def _worst(changes: Sequence[Change], kinds: tuple[str, ...]) -> Verdict:
    ways = {each.direction for each in changes if each.kind in kinds}
    return "worse" if "worse" in ways else "better" if "better" in ways else "same"


def compile_direction(before: Sequence[float], after: Sequence[float]) -> Direction:
    """Of the compile times of several runs each, in seconds: a difference only where every run of one side is longer
    than every run of the other, by a quarter and half a second.
    """
    if not before or not after:
        return "same"
    if min(after) > max(_SLOWER * max(before), max(before) + _SECONDS):
        return "worse"
    return "better" if min(before) > max(_SLOWER * max(after), max(after) + _SECONDS) else "same"


def slowest_phase(before: Report, after: Report) -> str:
    """The phase of compiling that takes so much more, or less, in all."""
    totals = [_phases(report) for report in (before, after)]
    names = set(totals[0]) | set(totals[1])
    return max(names, key=lambda name: abs(totals[1].get(name, 0.0) - totals[0].get(name, 0.0)), default="")


def _phases(report: Report) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in report.compilations:
        for exclusive in (each.exclusive, *(backward.exclusive for backward in each.backward)):
            for name, seconds in exclusive.items():
                found[name] = found.get(name, 0.0) + seconds
    return found


def measured_changes(measured: Measured, kernels_alike: bool) -> tuple[list[Measure], list[Change]]:
    """What the measurements tell, each only beyond what two equal interpreters show."""
    measures, changes = [], []
    if measured.latency_ms is not None:
        one, other = measured.latency_ms
        way: Direction = "same"
        if measured.speed is not None and measured.speed.verdict != "no difference shown":
            way = "better" if measured.speed.verdict == "faster" else "worse"
            advice = ""
            if way == "worse" and kernels_alike:
                advice = (
                    "As many kernels and graphs as before: look at guards and at the code of the kernels; "
                    "`dynalyze bench --prices` tells where a call's time goes"
                )
            changes.append(Change("speed", way, "the time of a call", None, f"{one:.4g} ms", f"{other:.4g} ms", advice))
        measures.append(Measure("latency_ms", one, other, way))
    if measured.memory is not None:
        old, new = measured.memory
        low, high = sorted((old, new))
        far = high > max(_LARGER * low, low + _BYTES)
        way = direction(old, new) if far else "same"
        if far:
            texts = f"{old / 2**20:.0f} MiB", f"{new / 2**20:.0f} MiB"
            changes.append(Change("memory", way, "the peak of the process with its libraries", None, *texts))
        measures.append(Measure("memory", old, new, way))
    changes += _outputs(measured.outputs)
    return measures, changes


def _outputs(outputs: Outputs) -> Iterator[Change]:
    one, other = outputs.before, outputs.after
    if one is not None and other is not None and (one == "suspicious") != (other == "suspicious"):
        way: Direction = "worse" if other == "suspicious" else "better"
        yield Change("outputs", way, "compiled against its own eager", None, one, other, outputs.note)
    elif outputs.eager_across == "suspicious":
        yield Change("outputs", "worse", "eager itself gives other values", None, "", "", outputs.note)
    elif outputs.compiled_across == "suspicious" and other != "suspicious" and outputs.eager_across == "equal":
        yield Change("outputs", "worse", "compiled gives other values", None, "", "", outputs.note)


def settings_changed(before: Report, after: Report) -> list[Difference]:
    """Public settings of torch that both versions have, with another value: most are defaults that changed."""
    one, other = _settings(before), _settings(after)
    return [
        Difference(name, _text(one[name]), _text(other[name]))
        for name in one
        if name in other and one[name] != other[name]
    ]


def _settings(report: Report) -> dict[Name, Any]:
    blocks = report.caches.settings if report.caches is not None else []
    named = ((f"{block.of}.{name}", value) for block in blocks[::-1] for name, value in block.values.items())
    return {name: value for name, value in named if "._" not in name}


def _text(value: Any) -> str:
    return str(value)[:80]


def compile_seconds(reports: Sequence[Report]) -> list[float]:
    """All compile time of each run."""
    return [seconds for report in reports if (seconds := all_seconds(report)) is not None]


def in_order(changes: Sequence[Change]) -> list[Change]:
    """The worse first, then the better."""
    ways: tuple[Direction, ...] = ("worse", "better", "same")
    return sorted(changes, key=lambda each: (ways.index(each.direction), each.kind in _NO_REGRESSION))
