"""What may be said of a speed-up, and when enough pairs were measured to say it.

The control is an A/A arm: pairs of eager processes, built as independently as an eager and a compiled one are. Its
noise floor is the end of its own 95 % interval that lies farther from 1. The interval of a speed-up reaches at least as
far to either side of the ratio: a difference that two equals may show is not shown.

Looking after every pair and stopping at the first interval that excludes 1 would inflate the error: with each look at
two equals it becomes likelier that one of the intervals does. So an interim look stops for a difference at a boundary
of its own, as Haybittle and Peto proposed: `_INTERIM_ERROR` in all is spent evenly over the interim looks, and the last
look keeps the usual 95 % interval. By Bonferroni's inequality the looks add at most `_INTERIM_ERROR` to what the last
one has alone; with the noise floor the whole stays near 1 % (benchmarks/verdicts.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynalyze.bench.paired import LogRatio, log_ratio
from dynalyze.report.measurements import Interval, Pair, Speedup, SpeedVerdict

MIN_PAIRS = 5
"""With fewer pairs the verdict is always "no difference shown"."""

DEFAULT_PAIRS = 10
"""The most pairs of a default run, of the control and of each configuration.

With A/A ratios that differ by 15 % from pair to pair (0.70 to 1.26 were seen), 10 pairs find a true 1.3x more than 9
times of 10; 7 pairs do not. `enough` ends a quiet run at 5. Figures: benchmarks/verdicts.py.
"""

CONFIDENCE = 0.95
NEGLIGIBLE = 0.05
"""A run may end early with "no difference shown" when a difference of this much would have been seen."""

_INTERIM_ERROR = 0.01
_STEEPEST = 700.0
"""The logarithm beyond which a float overflows: two pairs that contradict each other can come to more."""


def speedup(pairs: Sequence[Pair], control: Sequence[Pair], seed: int = 0) -> Speedup | None:
    """The ratio of eager to compiled time, widened to the noise floor of the control, and what may be said of it.

    None where fewer than two pairs can be used. Without a usable control the floor is unknown and so is the verdict.
    """
    own = log_ratio(pairs, seed)
    return None if own is None else _judge(own, log_ratio(control, seed))


def _judge(own: LogRatio, control: LogRatio | None) -> Speedup:
    reach = _reach(control)
    ratio = _ratio(own.mean, max(own.margin(CONFIDENCE), reach or 0.0))
    verdict = _verdict(ratio) if own.pairs >= MIN_PAIRS and reach is not None else "no difference shown"
    return Speedup(ratio, verdict, floor=None if reach is None else math.expm1(min(reach, _STEEPEST)), pairs=own.pairs)


def enough(
    pairs: Sequence[Pair], control: Sequence[Pair], looks: int = DEFAULT_PAIRS - MIN_PAIRS, seed: int = 0
) -> bool:
    """Whether a run may end before its last pair: an interim look. `looks` is how many of them the run plans in all.

    True when a difference is beyond the interim boundary as well as shown, or when the interval has become so narrow
    about 1 that no difference worth the time is left. After the last pair there is nothing to ask.
    """
    own, equals = log_ratio(pairs, seed), log_ratio(control, seed)
    if own is None or equals is None or own.pairs < MIN_PAIRS:
        return False
    speed = _judge(own, equals)
    if speed.verdict == "no difference shown":
        return speed.ratio.low > 1 / (1 + NEGLIGIBLE) and speed.ratio.high < 1 + NEGLIGIBLE
    return abs(own.mean) > own.margin(1 - _INTERIM_ERROR / max(looks, 1))


def _reach(control: LogRatio | None) -> float | None:
    """How far from 0 the control's interval reaches."""
    return None if control is None else abs(control.mean) + control.margin(CONFIDENCE)


def _ratio(mean: float, margin: float) -> Interval:
    return Interval(math.exp(mean), math.exp(max(mean - margin, -_STEEPEST)), math.exp(min(mean + margin, _STEEPEST)))


def _verdict(ratio: Interval) -> SpeedVerdict:
    if ratio.low > 1:
        return "faster"
    return "slower" if ratio.high < 1 else "no difference shown"
