"""The first calls: how much time has gone by after so many passes, compiled and in eager, and where the two meet."""

from __future__ import annotations

import math
from typing import NamedTuple

from dynalyze.render.text.bench import passes_words, short_count
from dynalyze.render.view.plots import drawing as draw
from dynalyze.render.view.plots.drawing import Plot, Scale, Shape, px
from dynalyze.report.measurements import BreakEven, Measurement
from dynalyze.text.amounts import duration

_WIDTH, _HEIGHT = 384, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 18, 36
_STEPS = 48
_MOST_CALLS = 60
"""Measured calls that are drawn as dots."""
_MOST_PASSES = 1e9


class _Curve(NamedTuple):
    """Cumulative seconds after each measured pass; from then on each takes `steady` milliseconds."""

    kind: str
    words: str
    calls: list[float]
    steady: float

    def after(self, passes: int) -> float:
        """Seconds gone by after so many passes."""
        known = self.calls[:passes]
        return (math.fsum(known) + (passes - len(known)) * self.steady) / 1000


def calls_plot(identity: str, item: Measurement) -> Plot | None:
    """The curves of one compiled configuration; None where its first calls were not measured."""
    curves = _curves(item)
    if not curves:
        return None
    even = item.break_even if item.break_even and item.break_even.passes else None
    end = max(10.0 * max(len(curve.calls) for curve in curves), 100.0)
    if even is not None and even.passes is not None:
        end = max(end, 3 * max(even.passes, min(even.high or 0.0, 10 * even.passes)))
    last = round(min(end, _MOST_PASSES))
    x = Scale(1.0, float(last), _LEFT, _WIDTH - _RIGHT, log=True)
    seconds = [curve.after(passes) for curve in curves for passes in (1, last)]
    y = Scale.over(seconds, _HEIGHT - _BOTTOM, _TOP, log=True)
    shapes: list[Shape] = [
        *_meeting(even, item.calls, x),
        *draw.across(x, _TOP, _HEIGHT - _BOTTOM, short_count, 5),
        *draw.upwards(y, _LEFT, _WIDTH - _RIGHT, draw.time_tick, 5),
        draw.Label("axis", _WIDTH - _RIGHT, _HEIGHT - 4, "calls" if item.calls == 1 else "rounds", "end"),
        *(shape for curve in curves for shape in _drawn(curve, x, y)),
    ]
    descriptions = [f"{curve.words}: {duration(curve.after(1))} after the first round" for curve in curves]
    if even is not None and even.passes is not None:
        descriptions.append(f"compiling has paid for itself after {passes_words(even.passes, item.calls)}")
    elif item.break_even is not None:
        descriptions.append(f"break-even {item.break_even.reason or 'not known'}")
    legend = [(f"curve {curve.kind}", curve.words) for curve in curves]
    return Plot(identity, item.configuration, "; ".join(descriptions), _WIDTH, _HEIGHT, shapes, legend)


def _curves(item: Measurement) -> list[_Curve]:
    startup, compiled, eager = item.startup, item.latency_ms, item.eager_latency_ms
    if item.status != "valid" or not startup or not compiled or not eager or not startup.cold_calls_ms:
        return []
    curves = [
        _Curve("eager", "eager", startup.eager_calls_ms, eager.p50),
        _Curve("cold", "compiled, empty caches", startup.cold_calls_ms, compiled.p50),
    ]
    if startup.warm_calls_ms:
        curves.append(_Curve("warm", "compiled, caches of an earlier process", startup.warm_calls_ms, compiled.p50))
    return curves


def _drawn(curve: _Curve, x: Scale, y: Scale) -> list[Shape]:
    def place(passes: int) -> str:
        return f"{px(x.at(passes))} {px(y.at(curve.after(passes)))}"

    measured = range(1, min(len(curve.calls), _MOST_CALLS) + 1)
    spread = (round(x.high ** (at / _STEPS)) for at in range(_STEPS + 1))
    line = "L".join(place(passes) for passes in sorted({*measured, *spread}))
    dots = "".join(f"M{place(number)}h0" for number in measured)
    found: list[Shape] = [draw.Path(f"curve {curve.kind}", f"M{line}", curve.words)]
    return [*found, draw.Path(f"dots {curve.kind}", dots)] if dots else found


def _meeting(even: BreakEven | None, calls: int, x: Scale) -> list[Shape]:
    """The break-even, with its interval as a band."""
    if even is None or even.passes is None:
        return []
    at = x.at(even.passes)
    shapes: list[Shape] = []
    if even.low is not None and even.high is not None:
        left = x.at(even.low)
        width = max(round(x.at(even.high) - left, 1), 1.0)
        shapes.append(draw.Rect("interval", left, _TOP, width, _HEIGHT - _BOTTOM - _TOP))
    middle = (x.start + x.end) / 2
    words = f"break-even: {passes_words(even.passes, 1) if calls == 1 else short_count(even.passes) + ' rounds'}"
    return [
        *shapes,
        draw.Path("meeting", f"M{px(at)} {_TOP}V{_HEIGHT - _BOTTOM}"),
        draw.Label("note", at, _TOP - 5, words, "end" if at > middle else "start"),
    ]
