"""Graph breaks, recompiles and functions of two reports: which are the same, and what became of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TypeVar

from dynalyze.comparison.pairing import (
    ComparableFact,
    ComparableReport,
    Key,
    by_code,
    cause_of,
    direction,
    entry,
    pair_up,
    type_of,
)
from dynalyze.comparison.types import (
    BreakChange,
    Breaks,
    BreakSide,
    Direction,
    FunctionChange,
    Functions,
    FunctionSide,
    RecompileChange,
    Recompiles,
    RecompileSide,
)
from dynalyze.facts.compilations import NOTHING_TRACED
from dynalyze.report import Effect, Finding, GraphBreak, Recompile, Report

_Number = TypeVar("_Number", int, float)
_Change = TypeVar("_Change", BreakChange, RecompileChange, FunctionChange)

_Lists = tuple[list[_Change], list[_Change], list[_Change], list[_Change]]
"""Those that are new, gone, unchanged and changed."""
_EFFECTS: tuple[Effect, ...] = ("split", "partly_eager", "eager", "error")  # From good to bad.


def _add(change: _Change, lists: _Lists[_Change], *, same: bool) -> None:
    """Add to the new, gone, unchanged (`same`) or changed ones."""
    new, gone, unchanged, changed = lists
    if change.before is None:
        new.append(change)
    elif change.after is None:
        gone.append(change)
    else:
        (unchanged if same else changed).append(change)


# Graph breaks: the same where cause, file, function and code line agree, wherever the line stands.


def compare_breaks(before: ComparableReport, after: ComparableReport, *, reworded: bool = False) -> Breaks:
    """All breaks of both reports, by what became of them; the advice is that of the second.

    `reworded`: two versions of torch made the reports, so that one statement may break under another id and type.
    """
    old_findings, new_findings = (_findings_by_break(side.report) for side in (before, after))
    found = Breaks()
    entries = [[entry(item, item.location, side) for item in side.report.graph_breaks] for side in (before, after)]
    causes: tuple[Key[GraphBreak], ...] = (cause_of, type_of, *((lambda item: "",) if reworded else ()))
    keys = [by_code(cause, bare=bare) for cause in causes for bare in (False, True)]
    places: list[Key[GraphBreak]] = [
        lambda item: None if item.offset is None else (cause_of(item), item.file, item.function, item.offset),
        lambda item: (cause_of(item), item.file, item.bare_function, item.line),
    ]
    for old, new in pair_up(entries[0], entries[1], keys, places):
        finding = new_findings.get(new.id) if new else old_findings.get(old.id) if old else None
        change = _break_change(old, new, finding)
        same = change.direction == "same" and (old and old.occurrences) == (new and new.occurrences)
        _add(change, (found.new, found.fixed, found.unchanged, found.changed), same=same)
    if reworded:
        found.new = [each for each in found.new if not _in_both(found, each.gb_id, each.after)]
        found.fixed = [each for each in found.fixed if not _in_both(found, each.gb_id, each.before)]
    return found


def _in_both(found: Breaks, gb_id: str | None, side: BreakSide | None) -> bool:
    """Whether both reports have this break: an older torch gives no columns, and one break for several of a line."""
    known = [(change.gb_id, each.location) for change in (*found.unchanged, *found.changed)
             for each in (change.before, change.after) if each is not None]  # fmt: skip
    return side is not None and any(
        other_id == gb_id and (at.column is None or side.location.column is None)
        and (at.function, at.code) == (side.location.function, side.location.code)
        for other_id, at in known
    )  # fmt: skip


def _findings_by_break(report: Report) -> dict[str, Finding]:
    """The most specific finding on each break: the one about the fewest."""
    broad_first = sorted(report.findings, key=lambda item: len(item.evidence))[::-1]
    return {identity: item for item in broad_first for identity in item.evidence}


def _break_change(old: GraphBreak | None, new: GraphBreak | None, finding: Finding | None) -> BreakChange:
    known = new or old
    assert known is not None
    worse: Direction = "same"
    if old and new:
        worse = direction(_EFFECTS.index(old.effect), _EFFECTS.index(new.effect))
    before, after = (
        BreakSide(item.id, item.effect, item.occurrences, item.location) if item else None for item in (old, new)
    )
    advice = finding.advice if finding and new and (old is None or worse == "worse") else ""
    return BreakChange(known.gb_id, known.gb_type, before, after, worse, advice, finding.title if finding else "")


# Recompiles: the same where function, cause and source agree, and counted.

_Group = list[Recompile]


def compare_recompiles(before: ComparableReport, after: ComparableReport, *, reworded: bool = False) -> Recompiles:
    """All recompiles of both reports, by what became of them, one entry for each function, cause and source.

    `reworded`: two versions of torch made the reports, which may name one source differently.
    """
    sides = before.report.recompiles, after.report.recompiles
    counts = [sum(item.cause != "limit" for item in side) for side in sides]
    found = Recompiles(counts[0], counts[1])
    # A report made with --no-source has no sources: the cause must do.
    sourced = all(not side or any(item.source is not None or item.guard for item in side) for side in sides)

    def qualified(item: ComparableFact[_Group]) -> Hashable:
        first = item.fact[0]
        # The limit is one event of a function, whichever guard failed last.
        return first.cause, item.file, item.function, first.source if sourced and first.cause != "limit" else None

    def bare(item: ComparableFact[_Group]) -> Hashable:
        return qualified(replace(item, function=item.bare_function))

    ours, theirs = (_groups(side, qualified) for side in (before, after))

    def place(item: ComparableFact[_Group]) -> Hashable:
        return item.fact[0].cause, item.file, item.bare_function

    for old, new in pair_up(ours, theirs, [qualified, bare, *((place,) if reworded else ())]):
        known = (new or old or [])[0]
        times = len(old or ()), len(new or ())
        change = RecompileChange(
            function=(after if new else before).function(known.location),
            cause=known.cause,
            source=known.source if sourced else None,
            before=_recompile_side(old),
            after=_recompile_side(new),
            direction=direction(*times) if all(times) else "same",
        )
        _add(change, (found.new, found.fixed, found.unchanged, found.changed), same=change.direction == "same")
    return found


def _groups(side: ComparableReport, key: Key[_Group]) -> list[ComparableFact[_Group]]:
    groups: dict[Hashable, ComparableFact[_Group]] = {}
    for item in side.report.recompiles:
        alone = entry([item], item.location, side)
        groups.setdefault(key(alone), replace(alone, fact=[])).fact.append(item)
    return list(groups.values())


def _recompile_side(group: _Group | None) -> RecompileSide | None:
    if not group:
        return None
    first = group[0]
    times = [item.seconds for item in group if item.seconds is not None]
    seconds = sum(times) if len(times) == len(group) else None
    return RecompileSide(len(group), first.location, first.expected, first.actual, seconds)


# Functions: compilations, graphs, kernels, time.

_COUNTED = ("compiled", "eager", "failed", "empty", "graphs", "ops", "kernels")
_Function = tuple[str, FunctionSide]  # A function under the name to show, and what became of it.


def compare_functions(before: ComparableReport, after: ComparableReport) -> Functions:
    """All functions that either report compiled, or tried to, by what became of them."""
    found = Functions()
    keys: list[Key[_Function]] = [
        lambda item: (item.file, item.function), lambda item: (item.file, item.bare_function),
    ]  # fmt: skip
    for pair in pair_up(_functions(before), _functions(after), keys):
        name = next(each[0] for each in reversed(pair) if each)
        old, new = (each[1] if each else None for each in pair)
        change = FunctionChange(name, old, new)
        if old and new:
            change.direction = direction((old.failed, old.eager), (new.failed, new.eager))
        _add(change, (found.new, found.gone, found.unchanged, found.changed), same=_counts(old) == _counts(new))
    return found


def _functions(side: ComparableReport) -> list[ComparableFact[_Function]]:
    """One entry a function; the parts after a break belong to their function."""
    found: dict[tuple[str, str], ComparableFact[_Function]] = {}
    owners: dict[tuple[int, int, str], FunctionSide] = {}
    for item in side.report.compilations:
        key = item.location.file, side.function(item.location)
        if key not in found:
            found[key] = entry((key[1], FunctionSide(item.location)), item.location, side)
        function = owners[item.process, item.epoch, item.compile_id] = found[key].fact[1]
        if item.status == "failed":
            function.failed += 1
        elif item.status != "eager":
            function.compiled += 1
        elif item.reason == NOTHING_TRACED:
            function.empty += 1
        else:
            function.eager += 1
        function.ops = _sum(function.ops, item.ops)
        function.seconds = _sum(function.seconds, item.whole_seconds)
    _add_graphs(side.report, owners)
    return list(found.values())


def _add_graphs(report: Report, owners: dict[tuple[int, int, str], FunctionSide]) -> None:
    graphs: dict[str, FunctionSide] = {}
    for graph in report.graphs:
        if (owner := owners.get(graph.key)) is not None:
            owner.graphs += 1
            graphs[graph.id] = owner
    if report.kernels:  # Where a report has none at all they were not recorded: that is not zero.
        for side in owners.values():
            side.kernels = 0
    for kernel in report.kernels:
        if (owner := graphs.get(kernel.graph)) is not None:
            owner.kernels = _sum(owner.kernels, 1)


def all_seconds(report: Report) -> float | None:
    """The compile time of a report, with backward graphs; None where none was recorded."""
    known = [item.whole_seconds for item in report.compilations if item.whole_seconds is not None]
    return sum(known) if known else None


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    """The sum of the recorded ones; None for none."""
    return other if one is None else one if other is None else one + other


def _counts(side: FunctionSide | None) -> tuple[int | None, ...]:
    return () if side is None else tuple(getattr(side, name) for name in _COUNTED)
