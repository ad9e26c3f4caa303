"""Compares two sweeps: what a new torch or transformers fixed and broke, item by item and line by line.

Items are the same where target and configuration agree. Breaks of an item are the same where cause, file, function and
code agree, since lines move from version to version. They are compared only where both runs traced the item to its end:
an item that could not be built any more has fixed nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Literal

import msgspec

from dynalyze.comparison.pairing import ComparableFact, by_code, cause_of, direction, pair_up, type_of
from dynalyze.comparison.reports import environment_differences
from dynalyze.comparison.types import Difference, Direction
from dynalyze.report.sensitivity import Argument, BreakType, CommandLine, ErrorText, FilePath, Name, Quote, Source, Word
from dynalyze.sweep.clusters import following, summarise
from dynalyze.sweep.records import REACHED, TRACED, Row, RowBreak, Status, Sweep

SCHEMA_VERSION = 1

_FIRST = ("torch", "transformers", "python")


class SweepRun(msgspec.Struct):
    """One of the two sweeps. `planned` is more than `items` where it was interrupted."""

    dynalyze: Word
    created: Word
    command: CommandLine
    items: int
    planned: int
    clean: int
    reached: int


class ItemChange(msgspec.Struct):
    """An item that changed. A status is None, and there is no direction, where only one sweep has the item.

    `new` and `gone` are the breaks that one sweep lacks; `error` is the error of the latest run.
    """

    target: Argument
    configuration: Name
    before: Status | None
    after: Status | None
    direction: Direction = "same"
    new: list[RowBreak] = []
    gone: list[RowBreak] = []
    error: ErrorText = ""


class LineChange(msgspec.Struct):
    """A break that is new, or gone, in these targets; `line` is in the sweep with it, `follows` as in BrokenLine."""

    gb_type: BreakType
    gb_id: Word | None
    path: FilePath
    line: int
    function: Name
    code: Source | None
    targets: list[Argument]
    follows: bool = False


class SweepRegression(msgspec.Struct):
    kind: Literal["status", "break"]
    target: Argument
    configuration: Name
    what: Quote
    place: FilePath = ""


class SweepComparison(msgspec.Struct):
    """`changes` begins with what is worse; unchanged items are only counted."""

    before: SweepRun
    after: SweepRun
    differences: list[Difference]
    changes: list[ItemChange]
    unchanged: int
    only_before: list[ItemChange]
    only_after: list[ItemChange]
    new_breaks: list[LineChange]
    gone_breaks: list[LineChange]
    unchanged_breaks: int
    regressions: list[SweepRegression]


def compare(before: Sweep, after: Sweep) -> SweepComparison:
    old, new = ({(row.target, row.configuration): row for row in sweep.items} for sweep in (before, after))
    pairs = [(old[name], row) for name, row in new.items() if name in old]
    changes = [_change(*pair) for pair in pairs]
    changed = [each for each in changes if each.before != each.after or each.new or each.gone]
    changed.sort(key=lambda each: ("worse", "better", "same").index(each.direction))
    environments = ({**sweep.environment, "dynalyze": sweep.dynalyze} for sweep in (before, after))
    differences = environment_differences(*environments)
    # The versions that explain most stand first.
    differences.sort(key=lambda each: _FIRST.index(each.name) if each.name in _FIRST else len(_FIRST))
    same = [len(row.breaks) - len(each.new) for (was, row), each in zip(pairs, changes, strict=True) if _both(was, row)]
    return SweepComparison(
        _run(before), _run(after), differences, changed, unchanged=len(changes) - len(changed),
        only_before=[_item(row, row.status, None) for name, row in old.items() if name not in new],
        only_after=[_item(row, None, row.status) for name, row in new.items() if name not in old],
        new_breaks=_by_line(after, [(each.target, found) for each in changes for found in each.new]),
        gone_breaks=_by_line(before, [(each.target, found) for each in changes for found in each.gone]),
        unchanged_breaks=sum(same), regressions=list(_regressions(changed)),
    )  # fmt: skip


def _run(sweep: Sweep) -> SweepRun:
    total, items = summarise(sweep).total, len(sweep.items)
    clean, planned = total.counts.get("full_graph", 0), max(sweep.planned, items)
    return SweepRun(sweep.dynalyze, sweep.created, sweep.command, items, planned, clean, total.reached)


def _change(before: Row, after: Row) -> ItemChange:
    pairs = (
        pair_up(_entries(before), _entries(after), [by_code(cause_of), by_code(type_of)], [_by_place])
        if _both(before, after) else []
    )  # fmt: skip
    change = _item(after, before.status, after.status)
    change.new = [found for was, found in pairs if was is None and found is not None]
    change.gone = [was for was, found in pairs if found is None and was is not None]
    change.direction = direction(_rank(before.status), _rank(after.status))
    if before.status == after.status:
        change.direction = direction(bool(change.gone), bool(change.new))
    return change


def _item(row: Row, before: Status | None, after: Status | None) -> ItemChange:
    return ItemChange(row.target, row.configuration, before, after, error=row.error or "")


def _rank(status: Status) -> int:
    """From good to bad; all ways not to reach the compiler are equal."""
    return REACHED.index(status) if status in REACHED else len(REACHED)


def _both(before: Row, after: Row) -> bool:
    return before.status in TRACED and after.status in TRACED


def _entries(row: Row) -> list[ComparableFact[RowBreak]]:
    return [
        ComparableFact(
            fact=found, file=found.place, function=found.function, line=found.line, column=0, offset=None,
            code=None if found.code is None else found.code.strip(),
        )
        for found in row.breaks
    ]  # fmt: skip


def _by_place(item: ComparableFact[RowBreak]) -> Hashable:
    return cause_of(item), item.file, item.function


def _by_line(sweep: Sweep, found: list[tuple[str, RowBreak]]) -> list[LineChange]:
    follows = following(sweep.items)
    groups: dict[Hashable, LineChange] = {}
    for target, each in found:
        where = each.place, each.line, each.function, each.code
        line = LineChange(each.gb_type, each.gb_id, *where, [], each.at in follows)
        group = groups.setdefault((each.gb_id or each.gb_type, *where), line)
        if target not in group.targets:
            group.targets.append(target)
    return sorted(groups.values(), key=lambda line: (line.follows, -len(line.targets), line.path, line.line))


def _regressions(changes: list[ItemChange]) -> Iterator[SweepRegression]:
    """A worse status is one regression, however many breaks it brings."""
    for change in changes:
        if change.direction == "worse" and change.before != change.after:
            yield SweepRegression("status", change.target, change.configuration, change.after or "")
        elif change.before == change.after:
            for found in change.new:
                place = f"{found.place}:{found.line}"
                yield SweepRegression("break", change.target, change.configuration, found.gb_type, place)
