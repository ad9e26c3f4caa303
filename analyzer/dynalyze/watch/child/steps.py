"""Counts the steps of a process and keeps their running median.

This runs in the thread that trains: nothing here waits, writes or raises. Each Python function costs a step about a
microsecond, since the program's work empties the processor's caches.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from dynalyze.watch.child.events import StepSlow

_WINDOW = 101
# Steps until there is a median, and at most between its updates: as many as it is of.
_FEWEST, _MOST_BETWEEN = 5, 48
# A slow step is longer than the median by half and by so many seconds, and among the slowest of the window.
_SHARE, _SECONDS, _MOST_SLOW = 1.5, 0.02, 10


class Steps:
    """Counts `number` ended steps, and calls `slow` for each that was slow or compiled. `compile_seconds` gives the
    process's compile time so far.
    """

    def __init__(self, slow: Callable[[StepSlow], None], compile_seconds: Callable[[], float]) -> None:
        self.number = 0
        self.counted_by = ""
        self.usual: float | None = None
        self._slow, self._compile_seconds = slow, compile_seconds
        self._compiled = 0.0
        self._last = time.perf_counter()
        self._forget()

    def ended(self, counted_by: str) -> None:
        """Count a step, at its end; a better source than before begins at 0."""
        if counted_by != self.counted_by and not self.begin(counted_by):
            return
        now = time.perf_counter()
        took = now - self._last
        self._last = now
        compiled = self._compile_seconds()
        if compiled != self._compiled:
            self._report(took, compiled - self._compiled)
            self._compiled = compiled
        else:
            if took > self._slow_from:
                self._report(took, 0.0)
            self._recent.append(took)
            self._until_median -= 1
            if not self._until_median:
                self._take_median()
        self.number += 1

    def begin(self, counted_by: str, number: int = 0) -> bool:
        """Whether this source counts, from `number` on: the program before its optimizer before compiled calls."""
        order = ("", "calls", "optimizer", "step")
        if order.index(counted_by) < order.index(self.counted_by):
            return False
        self.counted_by, self.number, self.usual = counted_by, number, None
        self._forget()
        return True

    def _forget(self) -> None:
        self._recent: collections.deque[float] = collections.deque(maxlen=_WINDOW)
        self._slow_from = float("inf")
        self._until_median = _FEWEST

    def _report(self, took: float, compiling: float) -> None:
        self._slow(StepSlow(number=self.number, took=took, usual=self.usual, compiling=max(0.0, compiling)))

    def _take_median(self) -> None:
        """Say anew what a usual step takes, from the last ones that compiled nothing."""
        self._until_median = min(len(self._recent), _MOST_BETWEEN)
        ordered = sorted(self._recent)
        self.usual = ordered[len(ordered) // 2]
        most = ordered[-_MOST_SLOW] if len(ordered) == _WINDOW else 0.0
        self._slow_from = max(self.usual * _SHARE, self.usual + _SECONDS, most)
