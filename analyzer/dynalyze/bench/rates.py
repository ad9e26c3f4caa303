"""How long one pass takes, and how much that makes in a second."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from dynalyze.report.measurements import Latency

_SHORTEST, _LONGEST = 1e-9, 1e12
"""Milliseconds, a picosecond and thirty years: what lies outside was not measured by a clock."""


def usable(samples: Sequence[float]) -> list[float]:
    """The samples that can be times: finite, positive numbers. NaN fails every comparison, so it goes too."""
    return [float(sample) for sample in samples if isinstance(sample, (int, float)) and _SHORTEST < sample < _LONGEST]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of the sorted samples stays below; between two neighbours, in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def latency(samples: Sequence[float]) -> Latency | None:
    """What the samples of one pass, in milliseconds, come to; None where none can be used."""
    ordered = sorted(usable(samples))
    if not ordered:
        return None
    p50, p90, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    return Latency(
        p50,
        p90,
        p95,
        p99,
        mean=statistics.fmean(ordered),
        sd=statistics.stdev(ordered) if len(ordered) > 1 else None,
        samples=len(ordered),
    )


def throughput(
    latency: Latency | None, items: float | None, tokens: float | None, phase: str, calls: int
) -> dict[str, float]:
    """What the median pass makes in a second, by name; what is not known is left out.

    Prefill and decode have names of their own, because tokens read and tokens written are not to be compared. Every
    call of a prefill pass ends with a sequence's first token, every call of a decode pass adds one token to each
    sequence: hence the time to first token and the time per output token, in milliseconds.
    """
    if latency is None or not usable([latency.p50]):
        return {}
    apart = phase in ("prefill", "decode", "generate")
    rates = {"samples_per_second": items, f"{phase}_tokens_per_second" if apart else "tokens_per_second": tokens}
    result = {name: amount / latency.p50 * 1000 for name, amount in rates.items() if amount and 0 < amount < math.inf}
    token_time = {"prefill": "time_to_first_token_ms", "decode": "time_per_output_token_ms"}.get(phase)
    if token_time and calls > 0:
        result[token_time] = latency.p50 / calls
    return result
