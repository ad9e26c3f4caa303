"""The items of a sweep as rows of a table, and the lines of code that break over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote

from dynalyze.render.highlight import code_at
from dynalyze.render.view.links import Anchors, Link, Place, first
from dynalyze.report import Location
from dynalyze.sweep import words
from dynalyze.sweep.clusters import Place as BreakPlace
from dynalyze.sweep.clusters import place_of
from dynalyze.sweep.records import BrokenLine, Row, RowBreak, Status, Sweep, SweepSummary
from dynalyze.text.visible import clipped
from dynalyze.words.report import EFFECTS

MAX_BREAKS = 25
"""Breaks of one item; its own page has all."""

MAX_NAMES = 10
"""Links to items that are shown before the rest is folded away."""

_MAX_TITLE = 160

# What needs a look first; the clean ones last.
_ORDER: tuple[Status, ...] = (
    "graph_break", "compile_error", "crash", "timeout", "eager_error", "create_error", "full_graph",
)  # fmt: skip
_MARKS: dict[Status, str] = {"full_graph": "compiled", "graph_break": "broken", "compile_error": "failed"}


class ItemLinks:
    """Links to the items of these rows: the first few, and those that are folded away."""

    def __init__(self, rows: Sequence[int], links: Sequence[Link]) -> None:
        most = MAX_NAMES if len(rows) > MAX_NAMES + 2 else len(rows)  # A rest of one or two is not worth folding.
        self.first = [links[at] for at in rows[:most]]
        self.more = [links[at] for at in rows[most:]]


def mark_of(status: Status) -> str:
    """The look of a status: "other" for those that say nothing of torch.compile."""
    return _MARKS.get(status, "other")


def item_views(sweep: Sweep, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> list[ItemView]:
    """All items: what breaks first, most breaks first; the clean ones last, by name."""
    ranked = sorted(
        zip(sweep.items, links, strict=True),
        key=lambda each: (_ORDER.index(each[0].status), -each[0].graph_breaks, each[0].target.lower()),
    )
    return [ItemView(row, link, places) for row, link in ranked]


class ItemView:
    """One row. `page` is "" where the item has no report of its own; `rank` sorts by status."""

    def __init__(self, row: Row, link: Link, places: Mapping[BreakPlace, str]) -> None:
        claims = [speed.speedup for speed in row.speeds if speed.speedup is not None]
        self.fact = row
        self.link = link
        self.page = page_link(row.page)
        self.rank = _ORDER.index(row.status)
        self.speedup = max(claims, default=None)
        self.breaks = first(row.breaks, MAX_BREAKS).map(lambda found: BreakLine(found, places))


class BreakLine:
    """A break in the row of its item; `anchor` leads to its line's entry, "" where that is not shown."""

    def __init__(self, found: RowBreak, places: Mapping[BreakPlace, str]) -> None:
        path = found.path or found.file
        self.place = words.place_words(path, found.line)
        self.path = f"{path}:{found.line}"
        self.title = clipped(found.gb_type, _MAX_TITLE)
        self.anchor = places.get(place_of(found), "")


def page_link(page: str | None) -> str:
    """The relative address of a page, whatever the row says; "" for anything else."""
    if not page or "\\" in page:
        return ""
    path = PurePosixPath(page)
    return "" if path.is_absolute() or path.suffix != ".html" else quote(str(path), errors="replace")


MAX_CARDS = 12
MAX_LINES = 400
MAX_FOLLOWING = 200


def line_anchors(found: SweepSummary, anchors: Anchors) -> dict[BreakPlace, str]:
    """An anchor for each line that the page shows."""
    some = [*found.lines[: MAX_CARDS + MAX_LINES], *found.following[:MAX_FOLLOWING]]
    return {_key(line): anchors.claim(f"line-{line.path.rpartition('/')[2]}-{line.line}") for line in some}


class LinesView:
    """`cards` lead; `rest` is a table of the others. A line that breaks one model only is no card where others are
    shared.
    """

    def __init__(self, found: SweepSummary, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> None:
        def view(line: BrokenLine) -> LineView:
            return LineView(line, links, places)

        shared = [line for line in found.lines if len(line.targets) > 1]
        leading = (shared or list(found.lines))[:MAX_CARDS]
        self.total = len(found.lines)
        self.cards = [view(line) for line in leading]
        self.rest = first(found.lines[len(leading) :], MAX_LINES).map(view)
        self.following = first(found.following, MAX_FOLLOWING).map(view)


class LineView:
    """One line of code. `effect` is the worst that its breaks did, "" where none is known."""

    def __init__(self, line: BrokenLine, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> None:
        self.anchor = places.get(_key(line), "")
        self.fact = line
        self.place = Place(words.place_words(line.path, line.line), f"{line.path}:{line.line}", line.function)
        self.code = code_at(Location(line.path, line.line, None, line.function, line.code), None)
        self.effect = next((effect for effect in EFFECTS if effect in line.effects), "")
        self.links = ItemLinks(line.rows, links)


def _key(line: BrokenLine) -> BreakPlace:
    return line.path, line.line, line.gb_type
