"""Statistics of measurements, in plain Python: from raw samples to what a report may say.

Samples that cannot be times (NaN, zero, negative, infinite) count as not measured; nothing here raises for them.

latency, throughput    percentiles of one arm, and what they make in a second
log_ratio              the ratio of two arms over process pairs, with its standard error
speedup, enough        the ratio with its interval and noise floor, the verdict, when to stop
break_even             passes until compiling has paid for itself

The unit of sampling is the process pair: fresh processes of one and the same program differ by more (where their
memory came to lie, what the machine did meanwhile) than the calls of one process show. So each pair gives one number,
the log of the ratio of its two medians, and the error comes from how these differ: a hierarchical bootstrap that
resamples pairs, and within them the calls of each arm (Kalibera and Jones, "Quantifying performance changes with effect
size confidence intervals", 2012).

With 3 to 10 pairs a percentile bootstrap is too narrow: it never leaves the range of the pairs seen, so with five equal
pairs it claims a difference at least once in 16. Two corrections, as in Hesterberg, "What teachers should know about
the bootstrap" (2015): the bootstrap's standard error is multiplied by sqrt(n / (n - 1)) against its narrowness bias,
and the interval is the mean plus and minus a quantile of Student's t, with n - 1 degrees of freedom, times that error.
On the log scale the interval of the ratio turned round is the interval turned round.

The control is an A/A arm: pairs of eager processes, built as independently as an eager and a compiled one are. Its
noise floor is the end of its own 95% interval that lies farther from 1. The interval of a speedup reaches at least as
far to either side of the ratio: a difference that two equals may show is not shown.

Looking after every pair and stopping at the first interval that excludes 1 would inflate the error: with each look at
two equals it becomes likelier that one of the intervals does. So an interim look stops for a difference at a boundary
of its own, as Haybittle and Peto proposed: `_INTERIM_ERROR` in all is spent evenly over the interim looks, and the last
look keeps the usual 95% interval. By Bonferroni's inequality the looks add at most `_INTERIM_ERROR` to what the last
one has alone; with the noise floor the whole stays near 1%. A run also stops where the pairs seen leave little hope of
a difference: stochastic curtailment, as in Lan, Simon and Halperin, "Stochastically curtailed tests in long-term
clinical trials" (1982), which can only lower that error. `benchmarks/verdicts.py` shows how often it is wrong.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dynalyze.bench import DEFAULT_PAIRS, MIN_PAIRS
from dynalyze.report.measurements import BreakEven, Interval, Latency, Pair, Speedup, SpeedVerdict, StartUp

_SHORTEST, _LONGEST = 1e-9, 1e12
"""Milliseconds, a picosecond and thirty years: what lies outside was not measured by a clock."""
_RESAMPLES = 1000
CONFIDENCE = 0.95
NEGLIGIBLE = 0.05
"""A run may end early with "no difference shown" when a difference of this much would have been seen."""

_INTERIM_ERROR = 0.01
_LEAST_CHANCE = 0.05
"""A run ends early, too, when a difference is less likely than this to be shown by its last pair."""
_FEWEST_SEEN = 5  # Pairs: fewer tell too little of those to come.
_STEEPEST = 700.0
"""The logarithm beyond which a float overflows: two pairs that contradict each other can come to more."""


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
    """Percentiles, mean and deviation of the samples of one pass, in milliseconds; None where none can be used."""
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
    """Samples and tokens per second at the median pass, by name; what is not known is left out.

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


def t_cumulative(value: float, degrees: int) -> float:
    """The probability that a variable of Student's t stays below `value`, for whole degrees of freedom.

    By the series of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
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
def t_quantile(probability: float, degrees: int) -> float:
    """The value that a variable of Student's t stays below with this probability, which is at least a half."""
    if degrees < 1 or not 0.5 <= probability < 1:
        raise ValueError(f"no quantile for probability {probability} with {degrees} degrees of freedom")
    low, high = 0.0, 1.0
    while t_cumulative(high, degrees) < probability:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:  # To neighbouring floats.
        if t_cumulative(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class LogRatio:
    """The mean over the pairs of log(eager / compiled), with its standard error, and the geometric mean of eager."""

    mean: float
    error: float
    pairs: int
    eager: float

    def margin(self, confidence: float) -> float:
        """Half the width of the interval that holds the true mean with this confidence."""
        return t_quantile((1 + confidence) / 2, self.pairs - 1) * self.error


def log_ratio(pairs: Sequence[Pair]) -> LogRatio | None:
    """None where fewer than two pairs have a usable sample in both arms: nothing tells how pairs differ then."""
    arms = [(usable(pair.eager), usable(pair.compiled)) for pair in pairs]
    arms = [(eager, compiled) for eager, compiled in arms if eager and compiled]
    if len(arms) < 2:
        return None
    medians = [(statistics.median(eager), statistics.median(compiled)) for eager, compiled in arms]
    ratios = [math.log(eager / compiled) for eager, compiled in medians]
    return LogRatio(
        mean=statistics.fmean(ratios),
        error=_standard_error(ratios, [_noise(eager) + _noise(compiled) for eager, compiled in arms]),
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


def _noise(samples: list[float]) -> float:
    """The variance of the log of the median when the calls of one process are resampled."""
    ordered = [math.log(sample) for sample in sorted(samples)]
    medians = [((ordered[lower] + ordered[upper]) / 2, share) for lower, upper, share in median_places(len(ordered))]
    mean = math.fsum(median * share for median, share in medians)
    return math.fsum((median - mean) ** 2 * share for median, share in medians)


@lru_cache(maxsize=128)
def median_places(count: int, seed: int = 0) -> tuple[tuple[int, int, float], ...]:
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


def speedup(pairs: Sequence[Pair], control: Sequence[Pair]) -> Speedup | None:
    """The ratio of eager to compiled time, widened to the noise floor of the control, and what may be said of it.

    None where fewer than two pairs can be used. Without a usable control the floor is unknown and so is the verdict.
    """
    own = log_ratio(pairs)
    return None if own is None else _judge(own, log_ratio(control))


def _judge(own: LogRatio, control: LogRatio | None) -> Speedup:
    # How far from 0 the control's interval reaches.
    reach = None if control is None else abs(control.mean) + control.margin(CONFIDENCE)
    margin = max(own.margin(CONFIDENCE), reach or 0.0)
    low, high = max(own.mean - margin, -_STEEPEST), min(own.mean + margin, _STEEPEST)
    ratio = Interval(math.exp(own.mean), math.exp(low), math.exp(high))
    verdict: SpeedVerdict = "no difference shown"
    if own.pairs >= MIN_PAIRS and reach is not None:
        verdict = "faster" if ratio.low > 1 else "slower" if ratio.high < 1 else verdict
    return Speedup(ratio, verdict, floor=None if reach is None else math.expm1(min(reach, _STEEPEST)), pairs=own.pairs)


def enough(pairs: Sequence[Pair], control: Sequence[Pair], looks: int = DEFAULT_PAIRS - MIN_PAIRS) -> bool:
    """Whether a run may end before its last pair: an interim look. `looks` is how many of them the run plans in all.

    True when a difference is beyond the interim boundary as well as shown; when the interval has become so narrow about
    1 that no difference worth the time is left; or when the pairs still to come are unlikely to show one. After the
    last pair there is nothing to ask.
    """
    own, equals = log_ratio(pairs), log_ratio(control)
    if own is None or equals is None or own.pairs < MIN_PAIRS:
        return False
    speed = _judge(own, equals)
    if speed.verdict == "no difference shown":
        negligible = speed.ratio.low > 1 / (1 + NEGLIGIBLE) and speed.ratio.high < 1 + NEGLIGIBLE
        return negligible or (own.pairs >= _FEWEST_SEEN and _chance(own, equals, MIN_PAIRS + looks) < _LEAST_CHANCE)
    return abs(own.mean) > own.margin(1 - _INTERIM_ERROR / max(looks, 1))


def _chance(own: LogRatio, control: LogRatio, last: int) -> float:
    """How likely a difference is to be shown by the `last` pair, if the pairs to come are like those seen."""
    if last <= own.pairs or own.error <= 0:
        return 0.0
    own_last, control_last = (
        LogRatio(each.mean, each.error * math.sqrt(each.pairs / last), last, each.eager) for each in (own, control)
    )
    needed = max(own_last.margin(CONFIDENCE), abs(control.mean) + control_last.margin(CONFIDENCE))
    # The standard deviation of the last mean, given the pairs seen.
    spread = own.error * math.sqrt(1 - own.pairs / last)
    return 1 - sum(side * t_cumulative((side * needed - own.mean) / spread, own.pairs - 1) for side in (1, -1))


def break_even(startup: StartUp | None, pairs: Sequence[Pair], speed: Speedup | None) -> BreakEven:
    """After how many passes compiling has paid for itself: its cost divided by what each pass saves.

    The cost is what the cold calls took beyond steady ones, else the compile time of the run that was explained. It was
    seen once, and has no interval.
    The saving is that of the paired ratio r, eager * (1 - 1 / r), so it excludes 0 exactly where the ratio excludes 1;
    its interval makes the interval of the passes.
    """
    own = log_ratio(pairs)
    if speed is None or own is None:
        return BreakEven(reason="not known: too few process pairs were measured")
    if speed.verdict == "slower":
        return BreakEven(reason="never: compiled is slower than eager")
    if speed.verdict != "faster":
        return BreakEven(reason="never, as far as is known: no saving was shown")
    if startup is None or not (startup.cold_calls_ms or startup.compile_seconds):
        return BreakEven(reason="not known: the first calls with empty caches were not measured")
    ratio = speed.ratio
    if startup.cold_calls_ms:
        if startup.steady_after is None:
            return BreakEven(reason="not known: the first calls did not become steady")
        calls = startup.cold_calls_ms[: max(startup.steady_after, 1)]
        if len(usable(calls)) < len(calls):
            return BreakEven(reason="not known: a first call has no usable time")
        cost = max(sum(calls) - len(calls) * own.eager / ratio.value, 0.0)
    else:
        cost = 1000 * (startup.compile_seconds or 0.0)
    # The larger the ratio, the sooner it is paid.
    passes, low, high = (cost / (own.eager * (1 - 1 / value)) for value in (ratio.value, ratio.high, ratio.low))
    return BreakEven(passes, low, high)
