"""Every raw sample as a dot: eager above compiled, a lane for each pair of processes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dynalyze.render.text.bench import EAGER
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.measurements import Measurement
from dynalyze.text.amounts import milliseconds

MAX_POINTS = 200
"""Dots of one strip."""

_WIDTH, _LABELS, _VALUES = 760, 160, 66
_TOP, _LANE, _MOST_LANES = 8, 5, 10
_GAP, _BETWEEN = 4, 14


@dataclass(frozen=True)
class _Strip:
    """The samples of one arm, process by process."""

    kind: str
    name: str
    processes: list[list[float]]

    @cached_property
    def samples(self) -> list[float]:
        return sorted(each for process in self.processes for each in process)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def height(self) -> int:
        return _LANE * min(len(self.processes), _MOST_LANES)


def strip_plot(identity: str, items: Sequence[Measurement]) -> Plot | None:
    """The samples of all valid configurations of one workload; None without samples."""
    strips = [strip for item in items if item.status == "valid" for strip in _arms(item)]
    if not strips:
        return None
    ends = (end for strip in strips for end in (strip.samples[0], strip.samples[-1]))
    scale = Scale.over(ends, _LABELS, _WIDTH - _VALUES)
    shapes: list[Shape] = []
    y: float = _TOP
    for at, strip in enumerate(strips):
        shapes += _drawn(strip, scale, y)
        y += strip.height + (_BETWEEN if at % 2 else _GAP)
    total = sum(len(strip.samples) for strip in strips)
    drawn = sum(min(len(strip.samples), MAX_POINTS) for strip in strips)
    note = "A dot is one round of calls. Each lane is one process; lanes at the same height ran as a pair."
    left_out = f"{drawn:,} of {total:,} samples are drawn, spread evenly over their order; the JSON has them all."
    note += f" All {total:,} samples are drawn." if drawn == total else f" {left_out}"
    return Plot(
        identity,
        "Every sample",
        "; ".join(_words(strip) for strip in strips),
        _WIDTH,
        y + 22,
        [*draw.across(scale, _TOP - 4, y, lambda value: draw.time_tick(value / 1000)), *shapes],
        [("dots eager", "a round in eager"), ("dots compiled", "a round compiled"), ("median", "median")],
        note,
    )


def _arms(item: Measurement) -> list[_Strip]:
    """The two arms. The pairs of eager itself are the control: two eager processes each."""
    pairs = [pair for pair in item.samples if pair.eager and pair.compiled]
    if not pairs:
        return []
    control = item.configuration == EAGER
    second = "eager, second process" if control else item.configuration
    return [
        _Strip("eager", "eager", [pair.eager for pair in pairs]),
        _Strip("eager" if control else "compiled", second, [pair.compiled for pair in pairs]),
    ]


def _drawn(strip: _Strip, scale: Scale, y: float) -> list[Shape]:
    count = len(strip.processes)
    dots = []
    for at, process in enumerate(strip.processes):
        height = round(y + _LANE * (at % _MOST_LANES + 0.5), 1)
        share = (at + 1) * MAX_POINTS // count - at * MAX_POINTS // count
        dots += [f"M{px(scale.at(value))} {px(height)}h0" for value in draw.evenly(process, share)]
    middle, x = y + strip.height / 2, scale.at(strip.median)
    lanes = range(0, min(count, _MOST_LANES), 2)
    return [
        *(draw.Rect("lane", _LABELS, y + _LANE * lane, _WIDTH - _VALUES - _LABELS, _LANE) for lane in lanes),
        draw.Path(f"dots {strip.kind}", "".join(dots), _words(strip)),
        draw.Path("median", f"M{px(x)} {px(y - 2)}V{px(y + strip.height + 2)}"),
        draw.Label("name", 0, middle + 4, draw.shortened(strip.name)),
        draw.Label("note", _WIDTH, middle + 4, milliseconds(strip.median), "end"),
    ]


def _words(strip: _Strip) -> str:
    samples = strip.samples
    return (
        f"{strip.name}: median {milliseconds(strip.median)}, from {milliseconds(samples[0])} to "
        f"{milliseconds(samples[-1])}, {len(samples):,} samples of {len(strip.processes):,} processes"
    )
