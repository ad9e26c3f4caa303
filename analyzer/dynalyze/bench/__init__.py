"""Plans measurements, runs them in processes of their own, and works out what may be said of them."""

MIN_PAIRS = 3
"""With fewer pairs the verdict is always "no difference shown". Three have two degrees of freedom: their interval
reaches 4.3 standard errors to either side, so only what is far above the noise is told.
"""

SHORT_PAIRS = 5  # The most pairs of a benchmark that is part of something else; a quiet machine needs 3.
DEFAULT_PAIRS = 10
"""The most pairs of a default run, of the control and of each configuration.

With A/A ratios that differ by 15% from pair to pair (0.70 to 1.26 were seen), 10 pairs find a true 1.3x more than 9
times of 10; 7 pairs do not. `enough` ends a quiet run at 3 or 4. Figures: benchmarks/verdicts.py.
"""
