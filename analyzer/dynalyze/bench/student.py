"""Student's t distribution for whole degrees of freedom: the series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""

from __future__ import annotations

import math
from functools import lru_cache

_HALVINGS = 200
"""More than enough for a bisection to arrive at neighbouring floats."""


def cumulative(value: float, degrees: int) -> float:
    """The probability that a t variable stays below `value`."""
    angle = math.atan2(value, math.sqrt(degrees))
    cosine_squared = math.cos(angle) ** 2
    odd = degrees % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= cosine_squared * (power + 1) / (power + 2)
    inside = math.sin(angle) * total
    return 0.5 + ((angle + inside) / math.pi if odd else inside / 2)


@lru_cache(maxsize=1024)
def quantile(probability: float, degrees: int) -> float:
    """The value that a t variable stays below with this probability, which is at least a half."""
    if degrees < 1 or not 0.5 <= probability < 1:
        raise ValueError(f"no quantile for probability {probability} with {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while cumulative(high, degrees) < probability:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if cumulative(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high
