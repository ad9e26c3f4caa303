"""The progress line of a benchmark: the current step, and an estimate of the time left."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Kind = Literal["first calls", "cold start", "memory", "accuracy", "pair"]


class Progress:
    """Tells what is being done, with an estimate of the time left from how long the like of it took before.

    `tell` shows a line, at most every `every` seconds. `pair_seconds` are the timed seconds of a pair: before the
    first pair is done they stand for it, together with the first calls of two processes. `ahead` counts what is not
    done yet, the present step included. `total` seconds bound all of it.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        every: float,
        pair_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        total: float | None = None,
    ) -> None:
        self._tell = tell
        self._every = every
        self._pair_seconds = pair_seconds
        self._clock = clock
        self._end = math.inf if total is None else clock() + total
        self.ahead: Callable[[], Counter[Kind]] = Counter
        self._took: dict[Kind, list[float]] = defaultdict(list)
        self._doing = ""
        self._began = clock()
        self._told = clock() - every

    @contextmanager
    def doing(self, kind: Kind, text: str) -> Iterator[None]:
        """One of these is done inside the block; what fails does not tell how long the others will take."""
        self._doing, self._began = text, self._clock()
        self.tick()
        yield
        self._took[kind].append(self._clock() - self._began)

    def tick(self) -> None:
        """Shows the line again when it is due."""
        now = self._clock()
        if self._doing and now - self._told >= self._every:
            self._told = now
            self._tell(f"{self._doing}{self._time_left(now)}")

    def seconds_left(self) -> float | None:
        """None while something is ahead whose like has not been seen; the present step counts whole."""
        total = 0.0
        for kind, count in self.ahead().items():
            usual = self._usual(kind)
            if usual is None:
                return None
            total += count * usual
        return total

    def _time_left(self, now: float) -> str:
        seconds = self.seconds_left()
        if seconds is None:
            return f" ({now - self._began:.0f} s)" if now - self._began >= 1 else ""
        return f"; at most {_about(max(0.0, min(seconds - (now - self._began), self._end - now)))} left"

    def _usual(self, kind: Kind) -> float | None:
        if self._took[kind]:
            return statistics.fmean(self._took[kind][-5:])
        if not self._took["first calls"]:
            return None
        one_process = min(self._took["first calls"])
        return one_process * 2 + self._pair_seconds if kind == "pair" else one_process


def _about(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {round(seconds / 60)} min"
