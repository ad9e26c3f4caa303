"""What a drawing is made of, and its scales. Coordinates are CSS pixels; `kind` is a class of the style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dynalyze.text.escape import visible


class Rect(NamedTuple):
    """`anchor`: what it leads to on the page, "" for nothing."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""
    anchor: str = ""
    tag: str = "rect"


class Path(NamedTuple):
    kind: str
    d: str
    title: str = ""
    tag: str = "path"


class Label(NamedTuple):
    """`anchor`: which end of the text stands at `x`."""

    kind: str
    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    tag: str = "text"


Shape = Rect | Path | Label


class Plot(NamedTuple):
    """A drawing, painted in the order of `shapes`; `description` is what it shows, in words.

    `legend` has the kind of each mark with what it stands for.
    """

    identity: str
    title: str
    description: str
    width: int
    height: float
    shapes: list[Shape]
    legend: list[tuple[str, str]]
    note: str = ""

    @property
    def leads(self) -> bool:
        """Whether parts of it are links."""
        return any(isinstance(shape, Rect) and shape.anchor for shape in self.shapes)


def shortened(text: str, characters: int = 20) -> str:
    """A text on one line that fits beside or into a drawing."""
    line = " ".join(visible(text).split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def px(value: float) -> str:
    """A coordinate inside a path, as short as a tenth of a pixel allows."""
    return f"{value:.1f}".removesuffix(".0")


_WIDE = 8.0
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""


@dataclass(frozen=True)
class Scale:
    """`low` to `high`, drawn from `start` to `end` (which may be the smaller one), to so many digits of a pixel."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    digits: int = 1

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> Scale:
        """A scale that holds all values with a little room; logarithmic where they are far apart."""
        known = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
        low, high = min(known), max(known)
        if high / low > _WIDE:
            return cls(low / 1.1, high * 1.1, start, end, True)
        room = max((high - low) * 0.05, high * 0.01)
        return cls(max(low - room, 0.0), high + room, start, end)

    def at(self, value: float) -> float:
        """The place of a value; what lies outside stands at the end."""
        value = min(max(value, self.low), self.high)
        share = (value - self.low) / (self.high - self.low)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), self.digits)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers on the scale, at most about so many."""
        if not self.log:
            step = round_step((self.high - self.low) / most)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [at * step for at in range(first, last + 1)]
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            inside = [value for value in found if self.low <= value <= self.high]
            if len(inside) <= most:
                return inside
        return inside[:: math.ceil(len(inside) / most)]


def round_step(step: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... that is not smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def across(scale: Scale, top: float, bottom: float, words: Callable[[float], str]) -> list[Shape]:
    """Grid lines and numbers of a horizontal axis, the numbers below."""
    shapes: list[Shape] = []
    for value in scale.ticks():
        x = scale.at(value)
        shapes.append(Path("grid", f"M{px(x)} {px(top)}V{px(bottom)}"))
        shapes.append(Label("tick", x, bottom + 14, words(value), "middle"))
    return shapes


def evenly(values: Sequence[float], most: int) -> list[float]:
    """At most so many of the values, spread evenly over their order, the smallest and the largest among them."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    if most < 2:
        return ordered[:most]
    return [ordered[round(at * (len(ordered) - 1) / (most - 1))] for at in range(most)]


def time_tick(seconds: float) -> str:
    """A round time along an axis: "0", "500 µs", "20 ms", "2,000 s": in minutes 100 s would not be round."""
    if seconds >= 0.9999:
        return f"{round(seconds, 3):,g} s"
    factor, unit = (1e3, "ms") if seconds >= 0.9999e-3 else (1e6, "µs")
    return f"{seconds * factor:.3g} {unit}" if seconds else "0"
