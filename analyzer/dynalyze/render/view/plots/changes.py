"""Recompiles over the time of the run: a lane for what changed, a bar for each compile that it set off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report import Recompile, Report
from dynalyze.text.amounts import count_of, duration
from dynalyze.text.visible import clipped, visible
from dynalyze.words.report import CAUSE_WORDS

MAX_LANES = 12
MAX_BARS = 400

_WIDTH, _LABELS, _RIGHT = 760, 180, 20
_TOP, _LANE, _BAR = 10, 30, 12
_LEAST_WIDTH = 3.0
_CHARACTER = 7.0
_LONGEST_VALUE = 24
_LONGEST_TITLE = 200


class _Change(NamedTuple):
    """A recompile on the clock of the run, in seconds."""

    fact: Recompile
    began: float
    seconds: float


def changes_plot(report: Report, anchors: Mapping[str, str] | None = None, most: int = MAX_BARS) -> Plot | None:
    """What changed, and when; None with fewer than two recompiles whose time is known.

    `anchors` tells where the page has a recompile, by its id.
    """
    changes = _changes(report)[:most]
    if len(changes) < 2:
        return None
    lanes: dict[str, list[_Change]] = {}
    for each in changes:
        lanes.setdefault(each.fact.source or CAUSE_WORDS[each.fact.cause], []).append(each)
    shown = sorted(lanes.items(), key=lambda lane: -sum(each.seconds for each in lane[1]))[:MAX_LANES]
    drawn = [each for _, lane in shown for each in lane]
    first, last = min(each.began for each in drawn), max(each.began + each.seconds for each in drawn)
    scale = Scale(first, max(last, first + 1e-3), _LABELS, _WIDTH - _RIGHT)
    bottom = _TOP + _LANE * len(shown)
    total = sum(each.cause != "limit" for each in report.recompiles)
    shapes: list[Shape] = [*draw.across(scale, _TOP - 4, bottom, draw.time_tick)]
    for at, (source, lane) in enumerate(shown):
        shapes += _lane(source, lane, scale, _TOP + at * _LANE, anchors or {})
    return Plot(
        "recompiles-over-time",
        "What changed, and when",
        "; ".join(_words(source, lane) for source, lane in shown),
        _WIDTH,
        bottom + 22,
        shapes,
        [("change", "a compile; beside it the value that it is for")],
        "" if len(drawn) == total else f"{len(drawn):,} of {total:,} recompiles are drawn; the list below has more.",
    )


def _changes(report: Report) -> list[_Change]:
    """Those of which the start is known, in their order; reaching the limit is no compile."""
    began = {each.key: each.began for each in report.compilations}
    found = []
    for fact in report.recompiles:
        start = began.get(fact.key)
        if start is not None and fact.cause != "limit":
            found.append(_Change(fact, start, max(fact.seconds or 0.0, 0.0)))
    return sorted(found, key=lambda each: each.began)


def _lane(source: str, lane: Sequence[_Change], scale: Scale, top: float, anchors: Mapping[str, str]) -> list[Shape]:
    middle = top + _LANE / 2
    shapes: list[Shape] = [
        draw.Label("name", 0, middle + 4, draw.shortened(source)),
        draw.Path("even", f"M{px(_LABELS)} {px(middle)}H{px(_WIDTH - _RIGHT)}"),
    ]
    free = float(_LABELS)
    for each in lane:
        x = scale.at(each.began)
        width = max(round(scale.at(each.began + each.seconds) - x, 1), _LEAST_WIDTH)
        fact, anchor = each.fact, anchors.get(each.fact.id, "")
        values = f": {fact.expected or '?'} → {fact.actual}" if fact.actual else ""
        title = clipped(visible(f"{fact.id}, {duration(each.seconds)}{values}"), _LONGEST_TITLE)
        shapes.append(draw.Rect("change", x, middle - _BAR / 2, width, _BAR, title, anchor))
        value = clipped(visible(fact.actual or ""), _LONGEST_VALUE)
        if value and x >= free and x + len(value) * _CHARACTER < _WIDTH:
            shapes.append(draw.Label("tick", x, top + 7, value))
            free = x + (len(value) + 1) * _CHARACTER
    return shapes


def _words(source: str, lane: Sequence[_Change]) -> str:
    spent = duration(sum(each.seconds for each in lane))
    values = ", ".join(dict.fromkeys(each.fact.actual for each in lane if each.fact.actual))
    return clipped(visible(f"{source}: {count_of(len(lane), 'recompile')}, {spent}; {values}"), _LONGEST_TITLE)
