"""After how many passes compiling has paid for itself."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.bench.paired import log_ratio
from dynalyze.bench.rates import usable
from dynalyze.report.measurements import BreakEven, Pair, Speedup, StartUp


def break_even(startup: StartUp | None, pairs: Sequence[Pair], speed: Speedup | None) -> BreakEven:
    """What the cold calls cost beyond steady ones, divided by what each pass saves.

    The saving is that of the paired ratio r, eager * (1 - 1 / r), so it excludes 0 exactly where the ratio excludes 1;
    its interval makes the interval of the passes. The cost was seen once, in the cold process, and has none.
    """
    own = log_ratio(pairs)
    if speed is None or own is None:
        return BreakEven(reason="not known: too few process pairs were measured")
    if speed.verdict != "faster":
        return BreakEven(reason=_no_saving(speed))
    ratio = speed.ratio
    cost = _cost(startup, steady=own.eager / ratio.value)
    if isinstance(cost, str):
        return BreakEven(reason=cost)
    # The larger the ratio, the sooner it is paid.
    passes, low, high = (cost / (own.eager * (1 - 1 / value)) for value in (ratio.value, ratio.high, ratio.low))
    return BreakEven(passes, low, high)


def _no_saving(speed: Speedup) -> str:
    if speed.verdict == "slower":
        return "never: compiled is slower than eager"
    return "never, as far as is known: no saving was shown"


def _cost(startup: StartUp | None, steady: float) -> float | str:
    """Milliseconds that the cold calls took beyond a steady compiled pass, until steady; or why that is not known."""
    if startup is None or not startup.cold_calls_ms:
        return "not known: the first calls with empty caches were not measured"
    if startup.steady_after is None:
        return "not known: the first calls did not become steady"
    calls = startup.cold_calls_ms[: max(startup.steady_after, 1)]
    if len(usable(calls)) < len(calls):
        return "not known: a first call has no usable time"
    return max(sum(calls) - len(calls) * steady, 0.0)
