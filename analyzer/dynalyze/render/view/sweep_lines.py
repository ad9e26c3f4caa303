"""The lines of code that break, over all items: the worst as cards, the rest as a table, what only follows apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import Anchors, Place, Shown, shown
from dynalyze.render.view.sweep_items import ItemLink, ItemLinks
from dynalyze.report import Location
from dynalyze.sweep.consequences import Place as BreakPlace
from dynalyze.sweep.summary import BrokenLine, SweepSummary
from dynalyze.text.amounts import count_of
from dynalyze.text.visible import clipped
from dynalyze.words import sweep as words
from dynalyze.words.report import EFFECTS

MAX_CARDS = 12
MAX_LINES = 400
MAX_FOLLOWING = 200
MAX_CALLERS = 15
MAX_TEXT = 600


@dataclass(frozen=True)
class LineView:
    """One line of code. `effect` is the worst that its breaks did, "" where none is known."""

    anchor: str
    breaks: str
    title: str
    gb_id: str
    place: Place
    code: Code | None
    text: str
    reason: str
    reasons: str
    effect: str
    effect_words: str
    callers: list[tuple[str, str]]
    callers_count: str
    callers_omitted: int
    models: int
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


def lines_view(
    found: SweepSummary, links: Sequence[ItemLink], places: Mapping[BreakPlace, str], what: str
) -> LinesView:
    """A line that breaks one model only is no card where others are shared."""
    shared = [line for line in found.lines if len(line.targets) > 1]
    leading = (shared or list(found.lines))[:MAX_CARDS]
    rest, amount = shown(found.lines[len(leading) :], MAX_LINES)
    following, following_amount = shown(found.following, MAX_FOLLOWING)
    return LinesView(
        total=len(found.lines),
        cards=[_line(line, links, places, what) for line in leading],
        rest=[_line(line, links, places, what) for line in rest],
        amount=amount,
        following=[_line(line, links, places, what) for line in following],
        following_amount=following_amount,
    )


def _line(line: BrokenLine, links: Sequence[ItemLink], places: Mapping[BreakPlace, str], what: str) -> LineView:
    callers, amount = shown(line.callers, MAX_CALLERS)
    return LineView(
        anchor=places.get(_key(line), ""),
        breaks=words.breaks_words(line, what),
        title=clipped(line.gb_type, 300) or "Graph break",
        gb_id=line.gb_id or "",
        place=Place(words.place_words(line.path, line.line), f"{line.path}:{line.line}", line.function),
        code=code_at(Location(line.path, line.line, None, line.function, line.code), None),
        text=clipped(line.code or "", 200),
        reason=clipped(words.reason_words(line), MAX_TEXT),
        reasons=f"and {count_of(line.reasons - 1, 'other reason')}" if line.reasons > 1 else "",
        effect=next((effect for effect in EFFECTS if effect in line.effects), ""),
        effect_words=words.effects_words(line.effects),
        callers=[(caller.place, count_of(caller.targets, what)) for caller in callers],
        callers_count=count_of(len(line.callers), "place"),
        callers_omitted=amount.omitted,
        models=len(line.targets),
        links=ItemLinks.of(line.rows, links),
    )


def _key(line: BrokenLine) -> BreakPlace:
    return line.path, line.line, line.gb_type
