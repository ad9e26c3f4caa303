"""The section of a plan of compiling: the choice, the frontier as a drawing, and what the shapes come to."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.render.text import plans as words
from dynalyze.render.view.links import Anchors
from dynalyze.render.view.measurements import Table
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.plans import CompilePlan, PlanPoint
from dynalyze.text.amounts import duration, milliseconds

_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 14, 40
_LABEL_WIDTH, _LINE = 128, 13


class PlanView:
    """One plan. `lines` are to be pasted; the texts are those of the terminal."""

    def __init__(self, plan: CompilePlan, anchors: Anchors) -> None:
        self.table = Table("Ways of compiling", *words.table(plan))
        self.lines = words.pasted(plan)
        self.notes = words.notes(plan)
        self.caches = words.CACHES
        self.plot = frontier_plot(anchors.claim("plot-frontier"), plan.points, plan.choice)
        shapes = plan.shapes
        self.shapes = None if shapes is None else Table("Sizes to pad to", *words.shape_table(shapes))
        self.shape_sentences = [] if shapes is None else words.shape_sentences(shapes)
        self.shape_lines = "" if shapes is None else words.shape_lines(shapes)


def frontier_plot(identity: str, points: Sequence[PlanPoint], choice: str) -> Plot | None:
    """What a call takes against what starting takes; None where nothing was compiled."""
    if len(points) < 2:
        return None
    starts = [each for point in points for each in (point.start_up, point.warm_start_up) if each]
    x = Scale.over(starts, _LEFT + 12, _WIDTH - _RIGHT - _LABEL_WIDTH, log=True)
    y = Scale.over([point.ms / 1000 for point in points], _HEIGHT - _BOTTOM, _TOP)
    right = _WIDTH - _RIGHT
    shapes: list[Shape] = [
        *draw.across(x, _TOP, _HEIGHT - _BOTTOM, draw.time_tick),
        *draw.upwards(y, _LEFT, right, draw.time_tick),
        draw.Label("axis", right, _HEIGHT - 4, "first calls", "end"),
        *_stairs(points, x, y, right),
    ]
    taken: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda each: -each.ms):
        shapes += _marks(point, choice, x, y, taken)
    descriptions = [f"{point.configuration}: {_point_words(point)}" for point in points]
    legend = [("point shown", "empty caches"), ("point", "warm caches"), ("curve cold", "frontier")]
    note = "Better is down and to the left: a call is shorter, and the first calls are over sooner."
    title = "What a call takes against what starting takes"
    return Plot(identity, title, "; ".join(descriptions), _WIDTH, _HEIGHT, shapes, legend, note)


def _stairs(points: Sequence[PlanPoint], x: Scale, y: Scale, right: float) -> list[Shape]:
    """The frontier: what can be had for so long a start."""
    chosen = sorted((point for point in points if point.frontier), key=lambda point: point.start_up)
    if not chosen:
        return []
    path = f"M{px(x.at(chosen[0].start_up))} {px(y.at(chosen[0].ms / 1000))}"
    for point in chosen[1:]:
        path += f"H{px(x.at(point.start_up))}V{px(y.at(point.ms / 1000))}"
    return [draw.Path("curve cold", f"{path}H{px(right)}", "frontier")]


def _marks(point: PlanPoint, choice: str, x: Scale, y: Scale, taken: list[tuple[float, float]]) -> list[Shape]:
    left, top, words_of = x.at(point.start_up), y.at(point.ms / 1000), f"{point.configuration}: {_point_words(point)}"
    shapes: list[Shape] = []
    if point.warm_start_up and point.warm_start_up != point.start_up:
        warm = x.at(point.warm_start_up)
        shapes += [draw.Path("whisker", f"M{px(warm)} {px(top)}H{px(left)}"), _circle("point", warm, top, words_of)]
    shapes.append(_circle("point shown", left, top, words_of))
    height = top - 6  # Above the line of the frontier.
    while any(abs(left - other) < _LABEL_WIDTH and abs(height - used) < _LINE for other, used in taken):
        height += 1
    taken.append((left, height))
    name = draw.shortened(point.configuration) + (" (choice)" if point.configuration == choice else "")
    return [*shapes, draw.Label("name", left + 10, round(min(height, _HEIGHT - _BOTTOM - 2), 1), name)]


def _circle(kind: str, x: float, y: float, title: str) -> Shape:
    return draw.Path(kind, f"M{px(x - 5)} {px(y)}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", title)


def _point_words(point: PlanPoint) -> str:
    warm = "" if point.warm_start_up is None else f", {duration(point.warm_start_up)} with warm caches"
    return f"first calls {duration(point.start_up)}{warm}, then {milliseconds(point.ms)} a call"
