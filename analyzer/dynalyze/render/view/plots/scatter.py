"""What compiling costs against what it gains: one point for each configuration of each workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.measurements import Measurement, Speedup
from dynalyze.text.amounts import duration
from dynalyze.words.bench import claim, compile_cost, times, workload_of, workload_words

_WIDTH, _HEIGHT = 760, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 14, 40
_LABEL_WIDTH, _LINE = 118, 13
_MOST_NAMED = 14
"""With more points each has a number, told below the drawing."""


class _Point(NamedTuple):
    item: Measurement
    seconds: float
    speed: Speedup

    @property
    def regional(self) -> bool:
        return bool(self.item.options.get("region"))


def scatter_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """All valid configurations; None where fewer than two have both a speed-up and a compile time."""
    points = [
        _Point(item, cost.seconds, item.speedup)
        for item in items
        if item.status == "valid" and item.speedup is not None and (cost := compile_cost(item)) is not None
    ]
    if len(points) < 2:
        return None
    x = Scale.over((max(point.seconds, 1e-3) for point in points), _LEFT + 12, _WIDTH - _RIGHT - _LABEL_WIDTH, log=True)
    ends = [end for point in points for end in (point.speed.ratio.low, point.speed.ratio.high)]
    y = Scale.over([1.0, *(min(max(end, 0.05), 100.0) for end in ends)], _HEIGHT - _BOTTOM, _TOP)
    names = _names(points)
    right = _WIDTH - _RIGHT
    shapes: list[Shape] = [
        *draw.across(x, _TOP, _HEIGHT - _BOTTOM, draw.time_tick),
        *draw.upwards(y, _LEFT, right, times),
        draw.Path("even", f"M{_LEFT} {px(y.at(1.0))}H{right}"),
        draw.Label("axis", right, _HEIGHT - 4, "time to compile", "end"),
        *(shape for point in points for shape in _mark(point, x, y)),
        *_labels(points, names, x, y),
    ]
    legend = [("point shown", "whole model")]
    legend += [("point shown region", "regions")] if any(point.regional for point in points) else []
    hollow = any(point.speed.verdict == "no difference shown" for point in points)
    legend += [("point", "no difference shown")] if hollow else []
    note = "Better is up and to the left. The line through a point is its interval."
    named = list(zip(names, points, strict=True))
    if len(points) > _MOST_NAMED:
        told = (f"{name} {each.item.configuration}, {workload_words(workload_of(each.item))}" for name, each in named)
        note = f"{note} {'; '.join(told)}."
    return Plot(
        identity, "Speed-up against compile time", "; ".join(f"{name}: {_words(point)}" for name, point in named),
        _WIDTH, _HEIGHT, shapes, [*legend, ("even", "as fast as eager")], note,
    )  # fmt: skip


def _names(points: Sequence[_Point]) -> list[str]:
    """The configuration, with its workload where there are several; a number where there are too many."""
    if len(points) > _MOST_NAMED:
        return [str(number) for number in range(1, len(points) + 1)]
    several = len({workload_of(point.item) for point in points}) > 1
    return [
        f"{point.item.configuration}, {point.item.phase}" if several else point.item.configuration for point in points
    ]


def _mark(point: _Point, x: Scale, y: Scale) -> list[Shape]:
    """A circle for the whole model, a diamond for regions; hollow where no difference was shown."""
    left, ratio = x.at(max(point.seconds, 1e-3)), point.speed.ratio
    middle = y.at(ratio.value)
    shown = "" if point.speed.verdict == "no difference shown" else " shown"
    circle = f"M{px(left - 5)} {px(middle)}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
    diamond = f"M{px(left)} {px(middle - 6)}l6 6l-6 6l-6 -6z"
    return [
        draw.Path("whisker", f"M{px(left)} {px(y.at(ratio.low))}V{px(y.at(ratio.high))}"),
        draw.Path(f"point{shown}", diamond if point.regional else circle, _words(point)),
    ]


def _labels(points: Sequence[_Point], names: Sequence[str], x: Scale, y: Scale) -> list[Shape]:
    """Names beside their points, moved down where one would stand on another."""
    taken: list[tuple[float, float]] = []
    shapes: list[Shape] = []
    places = [(x.at(max(point.seconds, 1e-3)) + 10, y.at(point.speed.ratio.value) + 4) for point in points]
    for (left, wanted), name in sorted(zip(places, names, strict=True), key=lambda each: each[0][1]):
        top = wanted
        while any(abs(left - other) < _LABEL_WIDTH and abs(top - height) < _LINE for other, height in taken):
            top += 1
        taken.append((left, top))
        shapes.append(draw.Label("name", left, round(min(top, _HEIGHT - _BOTTOM - 2), 1), draw.shortened(name)))
    return shapes


def _words(point: _Point) -> str:
    return f"{claim(point.item)}, {duration(point.seconds)} to compile"
