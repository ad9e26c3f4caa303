"""The items of a sweep as rows of a table, and the lines of code that break over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import Anchors, Link, Place, Shown, shown
from dynalyze.report import Location
from dynalyze.sweep.clusters import Place as BreakPlace
from dynalyze.sweep.clusters import place_of
from dynalyze.sweep.records import Row, RowBreak, Status, Sweep
from dynalyze.sweep.summary import BrokenLine, SweepSummary
from dynalyze.text.visible import clipped
from dynalyze.words import sweep as words
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


@dataclass(frozen=True)
class ItemLinks:
    """Links to items: the first few, and those that are folded away."""

    first: list[Link]
    more: list[Link]

    @classmethod
    def of(cls, rows: Sequence[int], links: Sequence[Link]) -> ItemLinks:
        """The links of these rows; a rest of one or two is not worth folding."""
        some = [links[at] for at in rows]
        most = MAX_NAMES if len(some) > MAX_NAMES + 2 else len(some)
        return cls(some[:most], some[most:])


@dataclass(frozen=True)
class BreakLine:
    """A break in the row of its item; `anchor` leads to its line's entry, "" where that is not shown."""

    place: str
    path: str
    title: str
    anchor: str


@dataclass(frozen=True)
class ItemView:
    """One row. `page` is "" where the item has no report of its own; `rank` sorts by status."""

    fact: Row
    link: Link
    page: str
    rank: int
    speedup: float | None
    first: BreakLine | None
    more: list[BreakLine]
    omitted: int


def mark_of(status: Status) -> str:
    """The look of a status: "other" for those that say nothing of torch.compile."""
    return _MARKS.get(status, "other")


def item_views(sweep: Sweep, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> list[ItemView]:
    """All items: what breaks first, most breaks first; the clean ones last, by name."""
    ranked = sorted(
        zip(sweep.items, links, strict=True),
        key=lambda each: (_ORDER.index(each[0].status), -each[0].graph_breaks, each[0].target.lower()),
    )
    return [_item(row, link, places) for row, link in ranked]


def _item(row: Row, link: Link, places: Mapping[BreakPlace, str]) -> ItemView:
    breaks = [_break(found, places) for found in row.breaks[:MAX_BREAKS]]
    claims = [speed.speedup for speed in row.speeds if speed.speedup is not None]
    return ItemView(
        fact=row,
        link=link,
        page=page_link(row.page),
        rank=_ORDER.index(row.status),
        speedup=max(claims, default=None),
        first=breaks[0] if breaks else None,
        more=breaks[1:],
        omitted=len(row.breaks) - len(breaks),
    )


def _break(found: RowBreak, places: Mapping[BreakPlace, str]) -> BreakLine:
    path = found.path or found.file
    return BreakLine(
        place=words.place_words(path, found.line),
        path=f"{path}:{found.line}",
        title=clipped(found.gb_type, _MAX_TITLE),
        anchor=places.get(place_of(found), ""),
    )


def page_link(page: str | None) -> str:
    """The relative address of a page, whatever the row says; "" for anything else."""
    if not page or "\\" in page:
        return ""
    path = PurePosixPath(page)
    return "" if path.is_absolute() or path.suffix != ".html" else quote(str(path), errors="replace")


MAX_CARDS = 12
MAX_LINES = 400
MAX_FOLLOWING = 200


@dataclass(frozen=True)
class LineView:
    """One line of code. `effect` is the worst that its breaks did, "" where none is known."""

    anchor: str
    fact: BrokenLine
    place: Place
    code: Code | None
    effect: str
    links: ItemLinks


@dataclass(frozen=True)
class LinesView:
    """`cards` lead; `rest` is a table of the others."""

    total: int
    cards: list[LineView]
    rest: list[LineView]
    amount: Shown
    following: list[LineView]
    following_amount: Shown


def line_anchors(found: SweepSummary, anchors: Anchors) -> dict[BreakPlace, str]:
    """An anchor for each line that the page shows."""
    some = [*found.lines[: MAX_CARDS + MAX_LINES], *found.following[:MAX_FOLLOWING]]
    return {_key(line): anchors.claim(f"line-{line.path.rpartition('/')[2]}-{line.line}") for line in some}


def lines_view(found: SweepSummary, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> LinesView:
    """A line that breaks one model only is no card where others are shared."""
    shared = [line for line in found.lines if len(line.targets) > 1]
    leading = (shared or list(found.lines))[:MAX_CARDS]
    rest, amount = shown(found.lines[len(leading) :], MAX_LINES)
    following, following_amount = shown(found.following, MAX_FOLLOWING)
    return LinesView(
        total=len(found.lines),
        cards=[_line(line, links, places) for line in leading],
        rest=[_line(line, links, places) for line in rest],
        amount=amount,
        following=[_line(line, links, places) for line in following],
        following_amount=following_amount,
    )


def _line(line: BrokenLine, links: Sequence[Link], places: Mapping[BreakPlace, str]) -> LineView:
    return LineView(
        anchor=places.get(_key(line), ""),
        fact=line,
        place=Place(words.place_words(line.path, line.line), f"{line.path}:{line.line}", line.function),
        code=code_at(Location(line.path, line.line, None, line.function, line.code), None),
        effect=next((effect for effect in EFFECTS if effect in line.effects), ""),
        links=ItemLinks.of(line.rows, links),
    )


def _key(line: BrokenLine) -> BreakPlace:
    return line.path, line.line, line.gb_type
