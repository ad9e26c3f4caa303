"""The ratio of two arms over process pairs, with the error that goes with it.

The unit of sampling is the process pair: fresh processes of one and the same program differ by more (where their
memory came to lie, what the machine did meanwhile) than the calls of one process show. So each pair gives one number,
the log of the ratio of its two medians, and the error comes from how these differ: a hierarchical bootstrap that
resamples pairs, and within them the calls of each arm (Kalibera and Jones, "Quantifying performance changes with effect
size confidence intervals", 2012).

With 5 to 10 pairs a percentile bootstrap is too narrow: it never leaves the range of the pairs seen, so with five equal
pairs it claims a difference at least once in 16. Two corrections, as in Hesterberg, "What teachers should know about
the bootstrap" (2015): the bootstrap's standard error is multiplied by sqrt(n / (n - 1)) against its narrowness bias,
and the interval is the mean plus and minus a quantile of Student's t, with n - 1 degrees of freedom, times that error.
On the log scale the interval of the ratio turned round is the interval turned round.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dynalyze.bench import student
from dynalyze.bench.rates import usable
from dynalyze.report.measurements import Pair

_RESAMPLES = 1000


@dataclass(frozen=True)
class LogRatio:
    """The mean over the pairs of log(eager / compiled), with its standard error, and the geometric mean of eager."""

    mean: float
    error: float
    pairs: int
    eager: float

    def margin(self, confidence: float) -> float:
        """Half the width of the interval that holds the true mean with this confidence."""
        return student.quantile((1 + confidence) / 2, self.pairs - 1) * self.error


def log_ratio(pairs: Sequence[Pair], seed: int = 0) -> LogRatio | None:
    """None where fewer than two pairs have a usable sample in both arms: nothing tells how pairs differ then."""
    arms = [(usable(pair.eager), usable(pair.compiled)) for pair in pairs]
    arms = [(eager, compiled) for eager, compiled in arms if eager and compiled]
    if len(arms) < 2:
        return None
    medians = [(statistics.median(eager), statistics.median(compiled)) for eager, compiled in arms]
    ratios = [math.log(eager / compiled) for eager, compiled in medians]
    return LogRatio(
        mean=statistics.fmean(ratios),
        error=_standard_error(ratios, [_noise(eager, seed) + _noise(compiled, seed) for eager, compiled in arms]),
        pairs=len(arms),
        eager=math.exp(statistics.fmean(math.log(eager) for eager, _ in medians)),
    )


def _standard_error(ratios: list[float], noise: list[float]) -> float:
    """The hierarchical bootstrap's standard error of the mean, freed of its narrowness bias.

    Only the inner stage is drawn. The outer one, resampling the pairs, needs no drawing: by the law of total variance
    the variance of the mean of n resampled pairs is that of the ratios seen (divisor n), and the mean of the noise
    within the pairs, both divided by n. The correction multiplies by n / (n - 1).
    """
    count = len(ratios)
    return math.sqrt(statistics.variance(ratios) / count + statistics.fmean(noise) / (count - 1))


def _noise(samples: list[float], seed: int) -> float:
    """The variance of the log of the median when the calls of one process are resampled."""
    ordered = [math.log(sample) for sample in sorted(samples)]
    medians = [((ordered[lower] + ordered[upper]) / 2, share) for lower, upper, share in _middles(len(ordered), seed)]
    mean = math.fsum(median * share for median, share in medians)
    return math.fsum((median - mean) ** 2 * share for median, share in medians)


@lru_cache(maxsize=128)
def _middles(count: int, seed: int) -> tuple[tuple[int, int, float], ...]:
    """Where the median of a resample of `count` calls comes from: the places of its two middle calls among the sorted
    calls, with the share of the resamples that have it there.

    A resample's calls stand at places floor(count * u) for uniform u. The k-th smallest of `count` uniform numbers has
    the distribution Beta(k, count - k + 1), and the next above it lies in what is left as the smallest of the others:
    so two draws give the median of a whole resample.
    """
    generator = random.Random(seed)
    rank = (count + 1) // 2
    places: Counter[tuple[int, int]] = Counter()
    for _ in range(_RESAMPLES):
        lower = upper = generator.betavariate(rank, count - rank + 1)
        if count % 2 == 0:
            upper += (1 - lower) * generator.betavariate(1, count - rank)
        places[min(int(count * lower), count - 1), min(int(count * upper), count - 1)] += 1
    return tuple((lower, upper, times / _RESAMPLES) for (lower, upper), times in places.items())
