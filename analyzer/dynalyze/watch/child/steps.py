"""Counts the steps of a process and keeps their running median.

A step costs a reading of the clock and a few additions. This runs in the thread that trains: nothing here waits,
writes or raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dynalyze.watch.child.events import StepSlow

_WINDOW = 101
# Steps until there is a median, and between its updates.
_FEWEST, _EVERY = 5, 16
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
        self._slow = slow
        self._compile_seconds = compile_seconds
        self._recent: list[float] = []
        self._at = 0
        self._slow_from = float("inf")
        self._compiled = 0.0
        self._last = time.perf_counter()

    def ended(self, counted_by: str) -> None:
        """Count a step, at its end; a better source than before begins at 0."""
        if counted_by != self.counted_by and not self.begin(counted_by):
            return
        now = time.perf_counter()
        took, self._last = now - self._last, now
        compiled = self._compile_seconds()
        if compiled != self._compiled or took > self._slow_from:
            self._report(took, compiled - self._compiled)
        if compiled == self._compiled:
            self._add(took)
        self._compiled = compiled
        self.number += 1

    def begin(self, counted_by: str, number: int = 0) -> bool:
        """Whether this source counts, from `number` on: the program before its optimizer before compiled calls."""
        order = ("", "calls", "optimizer", "step")
        if order.index(counted_by) < order.index(self.counted_by):
            return False
        self.counted_by, self.number, self.usual = counted_by, number, None
        self._recent, self._at, self._slow_from = [], 0, float("inf")
        return True

    def _report(self, took: float, compiling: float) -> None:
        self._slow(StepSlow(number=self.number, took=took, usual=self.usual, compiling=max(0.0, compiling)))

    def _add(self, took: float) -> None:
        """Take the time of a step that compiled nothing into the median."""
        if len(self._recent) < _WINDOW:
            self._recent.append(took)
        else:
            self._recent[self._at % _WINDOW] = took
        self._at += 1
        if self._at == _FEWEST or self._at % _EVERY == 0:
            ordered = sorted(self._recent)
            self.usual = ordered[len(ordered) // 2]
            most = ordered[-_MOST_SLOW] if len(ordered) == _WINDOW else 0.0
            self._slow_from = max(self.usual * _SHARE, self.usual + _SECONDS, most)
