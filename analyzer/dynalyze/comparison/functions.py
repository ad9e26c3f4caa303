"""What became of each function in two reports: compilations, graphs, kernels, time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, TypeVar

from dynalyze.comparison.pairing import Entry, Side, entry, pair_up
from dynalyze.comparison.types import Direction, FunctionChange, Functions, FunctionSide, Seconds
from dynalyze.facts.compilations import NOTHING_TRACED
from dynalyze.report import Compilation, Report

_Key = tuple[str, str]
Number = TypeVar("Number", int, float)


class _Function(NamedTuple):
    """A function under the name to show, and what became of it."""

    name: str
    side: FunctionSide


def compare_functions(before: Side, after: Side) -> Functions:
    """Sort every function that either report has compiled, or tried to."""
    found = Functions()
    keys = [(key, key) for key in (_with_class, _without_class)]
    for old, new in pair_up(_entries(before), _entries(after), keys):
        change = _change(old, new)
        _list_of(found, change).append(change)
    return found


def _change(old: _Function | None, new: _Function | None) -> FunctionChange:
    known = new or old
    assert known is not None
    before, after = old.side if old else None, new.side if new else None
    return FunctionChange(known.name, before, after, _direction(before, after))


def compare_seconds(before: Report, after: Report) -> Seconds:
    """All compile time of either report, backward graphs included."""
    return Seconds(_all_seconds(before), _all_seconds(after))


def _with_class(item: Entry[_Function]) -> Hashable:
    return item.file, item.function


def _without_class(item: Entry[_Function]) -> Hashable:
    return item.file, item.bare_function


def _entries(side: Side) -> list[Entry[_Function]]:
    """One entry a function; the parts after a break belong to the function that they go on with."""
    found: dict[_Key, Entry[_Function]] = {}
    owners: dict[tuple[int, int, str], FunctionSide] = {}
    for item, shown in zip(side.report.compilations, side.shown.compilations, strict=True):
        key = item.location.file, side.places.function(item.location)
        if key not in found:
            function = _Function(side.names.function(shown.location), FunctionSide(shown.location))
            found[key] = entry(function, item.location, side.places)
        owners[item.process, item.epoch, item.compile_id] = found[key].fact.side
        _count(found[key].fact.side, item)
    _add_graphs(side.report, owners)
    return list(found.values())


def _count(side: FunctionSide, item: Compilation) -> None:
    if item.status == "failed":
        side.failed += 1
    elif item.status != "eager":
        side.compiled += 1
    elif item.reason == NOTHING_TRACED:
        side.empty += 1
    else:
        side.eager += 1
    side.ops = _sum(side.ops, item.ops)
    side.seconds = _sum(side.seconds, _seconds(item))


def _add_graphs(report: Report, owners: dict[tuple[int, int, str], FunctionSide]) -> None:
    graphs: dict[str, FunctionSide] = {}
    for graph in report.graphs:
        owner = owners.get((graph.process, graph.epoch, graph.compile_id))
        if owner is not None:
            owner.graphs += 1
            graphs[graph.id] = owner
    if report.kernels:  # Where a report has none at all they were not recorded: that is not zero.
        for side in owners.values():
            side.kernels = 0
    for kernel in report.kernels:
        owner = graphs.get(kernel.graph)
        if owner is not None:
            owner.kernels = _sum(owner.kernels, 1)


def _seconds(item: Compilation) -> float | None:
    """The whole time of a compilation; phases are inclusive, so the longest one holds the others."""
    every = [item.seconds, *(backward.seconds for backward in item.backward)]
    known = [phases.get("total", max(phases.values())) for phases in every if phases]
    return sum(known) if known else None


def _all_seconds(report: Report) -> float | None:
    known = [seconds for item in report.compilations if (seconds := _seconds(item)) is not None]
    return sum(known) if known else None


def _sum(one: Number | None, other: Number | None) -> Number | None:
    """The sum of what was recorded; None where nothing was."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _direction(before: FunctionSide | None, after: FunctionSide | None) -> Direction:
    if before is None or after is None:
        return "same"
    old, new = (before.failed, before.eager), (after.failed, after.eager)
    if old == new:
        return "same"
    return "worse" if new > old else "better"


def _list_of(found: Functions, change: FunctionChange) -> list[FunctionChange]:
    if change.before is None:
        return found.new
    if change.after is None:
        return found.gone
    return found.unchanged if _counts(change.before) == _counts(change.after) else found.changed


def _counts(side: FunctionSide) -> tuple[int | None, ...]:
    return side.compiled, side.eager, side.failed, side.empty, side.graphs, side.ops, side.kernels
