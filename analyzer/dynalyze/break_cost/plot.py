"""One bar of a whole call, from left to right: compiled graphs, the gaps at graph breaks, guards, what is around."""

from __future__ import annotations

from collections.abc import Mapping

from dynalyze.break_cost.records import CallPart, PartKind, Prices
from dynalyze.render.text.report import line_words
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Rect, Scale, Shape
from dynalyze.text.amounts import milliseconds, percent

_WIDTH, _TOP, _BAR = 760, 4, 34
_MOST_SHAPES = 600
_KINDS: dict[PartKind, str] = {
    "graph": "compiled graphs", "backward": "compiled backward", "break": "eager code at graph breaks",
    "resume": "getting back into compiled code", "guards": "guards", "entry": "getting into compiled code",
    "outside": "around compiled code",
}  # fmt: skip


def price_plot(identity: str, prices: Prices, calls: int, anchors: Mapping[str, str]) -> Plot | None:
    """The parts of a call in their order; those of a graph break lead to it. None where there are none."""
    whole = sum(part.ms for part in prices.parts)
    if not whole:
        return None
    x = Scale(0.0, whole, 1, _WIDTH - 1)
    shapes: list[Shape] = list(draw.across(x, 0, _TOP + _BAR + 4, lambda ms: draw.time_tick(ms / 1e3)))
    gone = 0.0
    for part in prices.parts[:_MOST_SHAPES]:
        left, gone = x.at(gone), gone + part.ms
        if (width := round(x.at(gone) - left, 1)) > 0:
            title = f"{_titled(part)}: {milliseconds(part.ms)} ({percent(part.ms / whole)})"
            shapes.append(Rect(f"part {part.kind}", left, _TOP, width, _BAR, title, anchors.get(part.break_id, "")))
    sums = {kind: sum(part.ms for part in prices.parts if part.kind == kind) for kind in _KINDS}
    known = [(kind, f"{words}: {milliseconds(sums[kind])}") for kind, words in _KINDS.items() if sums[kind]]
    description = f"A call of {milliseconds(whole)}, in time: {', '.join(words for _, words in known)}."
    legend = [(f"part {kind}", words) for kind, words in known]
    note = f"The {calls:,} calls of a round in their order, so drawn that together they are one average call."
    return Plot(
        identity, "A whole call" if calls == 1 else "An average call", description, _WIDTH, _TOP + _BAR + 24, shapes,
        legend, note if calls > 1 else "",
    )  # fmt: skip


def _titled(part: CallPart) -> str:
    where = f" {line_words(part.place)}" if part.place is not None else ""
    return f"{_KINDS[part.kind]}{where}"
