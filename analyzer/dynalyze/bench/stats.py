"""Statistics of measurements, in plain Python: everything that turns raw samples into what a report may say.

    latency, throughput    rates.py    percentiles of one arm, and what they make in a second
    speedup, enough        verdict.py  the paired ratio with its interval, the noise floor, the verdict, when to stop
    break_even             payback.py  passes until compiling has paid for itself

The interval itself is in paired.py. Samples that cannot be times (NaN, zero, negative, infinite) count as not measured;
no function here raises because of them. `benchmarks/verdicts.py` shows how often the verdict is wrong.
"""

from __future__ import annotations

from dynalyze.bench.payback import break_even
from dynalyze.bench.rates import latency, throughput
from dynalyze.bench.verdict import CONFIDENCE, DEFAULT_PAIRS, MIN_PAIRS, NEGLIGIBLE, enough, speedup

__all__ = [
    "CONFIDENCE",
    "DEFAULT_PAIRS",
    "MIN_PAIRS",
    "NEGLIGIBLE",
    "break_even",
    "enough",
    "latency",
    "speedup",
    "throughput",
]
