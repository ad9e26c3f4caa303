"""What parts of measurements are made of, those of features too."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Interval(msgspec.Struct):
    """A value with the ends of its 95% interval."""

    value: float
    low: float
    high: float


class MeasuredPart(Protocol):
    """A feature's part of a measurement; `problem` is why there is nothing in it."""

    problem: str
