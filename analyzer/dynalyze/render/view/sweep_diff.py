"""The page of a comparison of two sweeps as data, ready for a template that only loops over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison, SweepRun
from dynalyze.comparison.types import Direction
from dynalyze.render.view.links import Anchors, Link, Shown, shown
from dynalyze.render.view.run import Metric, Tone
from dynalyze.sweep.records import RowBreak
from dynalyze.text.amounts import count_of
from dynalyze.text.visible import clipped
from dynalyze.words import comparison as words
from dynalyze.words.comparison import drawn, value
from dynalyze.words.report import command_line
from dynalyze.words.sweep import place_words

MAX_LINES = 300
MAX_ITEMS = 1000
MAX_NAMES = 40
MAX_BREAKS = 20
MAX_TEXT = 600


_SECTIONS = (
    "verdict", "differences", "lines", "items", "runs", "new-lines", "fixed-lines", "items-worse", "items-better",
    "items-same", "only-before", "only-after", "content", "theme", "filter", "filter-status", "help", "keys",
)  # fmt: skip
"""The anchors that the template and the tables have themselves."""


@dataclass(frozen=True)
class LineView:
    anchor: str
    fact: LineChange
    targets: list[Link]
    omitted: int


@dataclass(frozen=True)
class LineTable:
    """Lines with one fate, new or fixed."""

    anchor: str
    name: str
    lead: str
    lines: list[LineView]
    amount: Shown


@dataclass(frozen=True)
class ItemView:
    anchor: str
    fact: ItemChange
    new: list[str]
    gone: list[str]


@dataclass(frozen=True)
class ItemTable:
    """Items that went one way."""

    anchor: str
    name: str
    items: list[ItemView]
    amount: Shown


@dataclass(frozen=True)
class SweepDiffPage:
    title: str
    before: str
    after: str
    tone: Tone
    status: str
    compared: bool
    headline: str
    notes: list[str]
    metrics: list[Metric]
    differences: list[tuple[str, str, str]]
    lines: list[LineTable]
    items: list[ItemTable]
    alone: list[ItemTable]
    runs: list[tuple[str, str, str]]


class _Index:
    """Gives each row its anchor, and finds that of an item by its target."""

    def __init__(self) -> None:
        self._anchors = Anchors(_SECTIONS)
        self._items: dict[str, str] = {}

    def item(self, change: ItemChange) -> str:
        """The anchor of an item's row; of several configurations the first stands for the target."""
        anchor = self._anchors.claim(f"item-{words.item_words(change).removeprefix('hf:')}")
        self._items.setdefault(change.target, anchor)
        return anchor

    def line(self, line: LineChange) -> str:
        """The anchor of a line's row."""
        return self._anchors.claim(f"line-{line.path.rpartition('/')[2]}-{line.line}")

    def link(self, target: str) -> Link:
        """A link to a target's row, where the page shows that."""
        return Link(target, self._items.get(target, ""))


def build_sweep_diff(comparison: SweepComparison) -> SweepDiffPage:
    """Everything that the page shows, in its order."""
    index = _Index()
    items, alone = _item_tables(comparison.changes, index), _alone(comparison, index)
    sentence = words.sweeps_verdict(comparison)
    before, after = comparison.before, comparison.after
    return SweepDiffPage(
        title="Two sweeps · dynalyze diff",
        before=before.created,
        after=after.created,
        tone="good" if not comparison.regressions and _compared(comparison) else "warning",
        status=_told(comparison),
        compared=_compared(comparison),
        headline=drawn(sentence[:1].upper() + sentence[1:]),
        notes=words.sweeps_notes(comparison),
        metrics=_metrics(comparison),
        differences=[
            (item.name, clipped(value(item.before), MAX_TEXT), clipped(value(item.after), MAX_TEXT))
            for item in comparison.differences
        ],
        lines=_line_tables(comparison, index),
        items=items,
        alone=alone,
        runs=_runs(before, after),
    )


def _compared(comparison: SweepComparison) -> bool:
    return bool(comparison.changes or comparison.unchanged)


def _told(comparison: SweepComparison) -> str:
    if not _compared(comparison):
        return "Nothing to compare"
    worse = len(comparison.regressions)
    return count_of(worse, "regression") if worse else "No regression"


def _metrics(comparison: SweepComparison) -> list[Metric]:
    directions = [change.direction for change in comparison.changes]
    return [
        Metric("items worse", f"{directions.count('worse'):,}", "#items"),
        Metric("items better", f"{directions.count('better'):,}", "#items"),
        Metric("as before", f"{comparison.unchanged:,}"),
        Metric("new breaking lines", f"{len(comparison.new_breaks):,}", "#lines"),
        Metric("fixed lines", f"{len(comparison.gone_breaks):,}", "#lines"),
    ]


def _line_tables(comparison: SweepComparison, index: _Index) -> list[LineTable]:
    told = (
        ("new-lines", "New", "They did not break before in these items.", comparison.new_breaks),
        ("fixed-lines", "Fixed", "They broke before in these items, and do not now.", comparison.gone_breaks),
    )
    return [_line_table(*each, index) for each in told if each[-1]]


def _line_table(anchor: str, name: str, lead: str, lines: Sequence[LineChange], index: _Index) -> LineTable:
    some, amount = shown(lines, MAX_LINES)
    return LineTable(anchor, name, lead, [_line(line, index) for line in some], amount)


def _line(line: LineChange, index: _Index) -> LineView:
    targets, amount = shown(line.targets, MAX_NAMES)
    return LineView(index.line(line), line, [index.link(target) for target in targets], amount.omitted)


def _item_tables(changes: Sequence[ItemChange], index: _Index) -> list[ItemTable]:
    names: tuple[tuple[Direction, str], ...] = (("worse", "Worse"), ("better", "Better"), ("same", "Changed otherwise"))
    tables = [
        _item_table(f"items-{direction}", name, [each for each in changes if each.direction == direction], index)
        for direction, name in names
    ]
    return [table for table in tables if table.items]


def _alone(comparison: SweepComparison, index: _Index) -> list[ItemTable]:
    told = (
        ("only-before", "In the first sweep alone", comparison.only_before),
        ("only-after", "In the second sweep alone", comparison.only_after),
    )
    return [_item_table(*each, index) for each in told if each[-1]]


def _item_table(anchor: str, name: str, changes: Sequence[ItemChange], index: _Index) -> ItemTable:
    some, amount = shown(changes, MAX_ITEMS)
    return ItemTable(anchor, name, [_item(change, index) for change in some], amount)


def _item(change: ItemChange, index: _Index) -> ItemView:
    return ItemView(index.item(change), change, _breaks(change.new), _breaks(change.gone))


def _breaks(breaks: Sequence[RowBreak]) -> list[str]:
    some, amount = shown(breaks, MAX_BREAKS)
    told = [f"{place_words(each.path or each.file, each.line)} {clipped(each.gb_type, 200)}" for each in some]
    return [*told, f"{amount.omitted:,} more"] if amount.omitted else told


def _runs(before: SweepRun, after: SweepRun) -> list[tuple[str, str, str]]:
    def both(name: str, one: str, other: str) -> tuple[str, str, str]:
        return name, clipped(one, MAX_TEXT), clipped(other, MAX_TEXT)

    return [
        both("Command", command_line(before.command), command_line(after.command)),
        both("Items", f"{before.items:,} of {before.planned:,}", f"{after.items:,} of {after.planned:,}"),
        both("Clean", f"{before.clean:,} of {before.reached:,}", f"{after.clean:,} of {after.reached:,}"),
        both("Recorded", before.created, after.created),
        both("By dynalyze", before.dynalyze, after.dynalyze),
    ]
