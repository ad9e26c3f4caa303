"""The page of a comparison of two sweeps as data, ready for a template that only loops over it."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.render.view.comparison import difference_rows
from dynalyze.render.view.links import Anchors, Link, Listed, first
from dynalyze.render.view.run import Metric
from dynalyze.render.words.bench import capital
from dynalyze.render.words.comparison import drawn
from dynalyze.render.words.report import command_line
from dynalyze.sweep import words
from dynalyze.sweep.compare import ItemChange, LineChange, SweepComparison
from dynalyze.sweep.records import RowBreak
from dynalyze.text.amounts import count_of
from dynalyze.text.visible import clipped

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


class _SweepIndex:
    """Gives each row its anchor, and finds that of an item by its target."""

    def __init__(self) -> None:
        self._anchors = Anchors(_SECTIONS)
        self._items: dict[str, str] = {}

    def item(self, change: ItemChange) -> str:
        """The anchor of an item's row; of several configurations the first stands for the target."""
        anchor = self._anchors.claim(f"item-{words.changed_item(change).removeprefix('hf:')}")
        self._items.setdefault(change.target, anchor)
        return anchor

    def line(self, line: LineChange) -> tuple[str, LineChange, Listed[Link]]:
        """A line with its anchor and the targets in which it breaks, which lead to their rows where those are shown."""
        anchor = self._anchors.claim(f"line-{line.path.rpartition('/')[2]}-{line.line}")
        links = first(line.targets, MAX_NAMES).map(lambda target: Link(target, self._items.get(target, "")))
        return anchor, line, links


class SweepDiffPage:
    """Everything that the page shows, in its order."""

    def __init__(self, comparison: SweepComparison) -> None:
        index = _SweepIndex()
        before, after, worse = comparison.before, comparison.after, len(comparison.regressions)
        directions = [change.direction for change in comparison.changes]
        self.compared = bool(comparison.changes or comparison.unchanged)
        self.items = [
            _item_table(f"items-{direction}", name, changes, index)
            for direction, name in (("worse", "Worse"), ("better", "Better"), ("same", "Changed otherwise"))
            if (changes := [each for each in comparison.changes if each.direction == direction])
        ]
        self.alone = [
            _item_table(anchor, name, changes, index)
            for anchor, name, changes in (
                ("only-before", "In the first sweep alone", comparison.only_before),
                ("only-after", "In the second sweep alone", comparison.only_after),
            )
            if changes
        ]
        self.lines = [
            (anchor, name, lead, first(lines, MAX_LINES).map(index.line))
            for anchor, name, lead, lines in (
                ("new-lines", "New", "They did not break before in these items.", comparison.new_breaks),
                ("fixed-lines", "Fixed", "They broke before in these items, and do not now.", comparison.gone_breaks),
            )
            if lines
        ]
        self.title = "Two sweeps · dynalyze diff"
        self.tone = "good" if not worse and self.compared else "warning"
        self.status = count_of(worse, "regression") if worse else "No regression"
        if not self.compared:
            self.status = "Nothing to compare"
        self.headline = drawn(capital(words.diff_verdict(comparison)))
        self.notes = words.diff_notes(comparison)
        self.metrics = [
            Metric("items worse", f"{directions.count('worse'):,}", "#items"),
            Metric("items better", f"{directions.count('better'):,}", "#items"),
            Metric("as before", f"{comparison.unchanged:,}"),
            Metric("new breaking lines", f"{len(comparison.new_breaks):,}", "#lines"),
            Metric("fixed lines", f"{len(comparison.gone_breaks):,}", "#lines"),
        ]
        self.differences = difference_rows(comparison.differences, MAX_TEXT)
        runs = (
            ("Command", command_line(before.command), command_line(after.command)),
            ("Items", f"{before.items:,} of {before.planned:,}", f"{after.items:,} of {after.planned:,}"),
            ("Clean", f"{before.clean:,} of {before.reached:,}", f"{after.clean:,} of {after.reached:,}"),
            ("Recorded", before.created, after.created),
            ("By dynalyze", before.dynalyze, after.dynalyze),
        )
        self.runs = [(name, clipped(one, MAX_TEXT), clipped(other, MAX_TEXT)) for name, one, other in runs]


def _item_table(
    anchor: str, name: str, changes: Sequence[ItemChange], index: _SweepIndex
) -> tuple[str, str, Listed[tuple[str, ItemChange, list[str], list[str]]]]:
    """Items that went one way: each with its anchor, its new breaks, and those that are gone."""
    shown = first(changes, MAX_ITEMS)
    return anchor, name, shown.map(lambda each: (index.item(each), each, _breaks(each.new), _breaks(each.gone)))


def _breaks(breaks: Sequence[RowBreak]) -> list[str]:
    some = first(breaks, MAX_BREAKS)
    told = [
        f"{words.place_words(each.path or each.file, each.line)} {clipped(each.gb_type, 200)}" for each in some.items
    ]
    return [*told, f"{some.omitted:,} more"] if some.omitted else told
