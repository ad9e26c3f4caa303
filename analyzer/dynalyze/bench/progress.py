"""The progress line of a benchmark: the current step, and an estimate of the time left."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Kind = Literal["first calls", "cold start", "memory", "accuracy", "inputs", "recorded", "extra", "pair", "operators"]


class Progress:
    """Shows the current step, and the time left as estimated from earlier steps of the same kind.

    `show` gets a line, at most every `every` seconds. `pair_seconds` are the timed seconds of a pair: until a pair is
    done, these and the first calls of two processes stand for it. `ahead` counts what is not done yet, with the present
    step. `total` limits the seconds of the whole.
    """

    def __init__(
        self,
        show: Callable[[str], None],
        every: float,
        pair_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        total: float | None = None,
    ) -> None:
        self._show = show
        self._every = every
        self._pair_seconds = pair_seconds
        self._clock = clock
        self._end = math.inf if total is None else clock() + total
        self.ahead: Callable[[], Counter[Kind]] = Counter
        self._took: dict[Kind, list[float]] = defaultdict(list)
        self._doing = ""
        self._began = clock()
        self._shown = clock() - every

    @contextmanager
    def doing(self, kind: Kind, text: str) -> Iterator[None]:
        """One of these is done inside the block; a failed one says nothing about how long the others take."""
        self._doing, self._began = text, self._clock()
        self.tick()
        yield
        self._took[kind].append(self._clock() - self._began)

    def tick(self) -> None:
        """Show the line again if it is due."""
        now = self._clock()
        if self._doing and now - self._shown >= self._every:
            self._shown = now
            left, took = self.seconds_left(), now - self._began
            if left is None:
                self._show(f"{self._doing} ({took:.0f} s)" if took >= 1 else self._doing)
                return
            left = max(0.0, min(left - took, self._end - now))
            about = f"{max(5, 5 * round(left / 5))} s" if left < 90 else f"{round(left / 60)} min"
            self._show(f"{self._doing}; at most about {about} left")

    def seconds_left(self) -> float | None:
        """None if the time of some kind of step is not known yet; the present step counts in full."""
        took, total = self._took, 0.0
        for kind, count in self.ahead().items():
            if not (took[kind] or took["first calls"]):
                return None
            if took[kind]:
                usual = statistics.fmean(took[kind][-5:])
            else:
                one_process = min(took["first calls"])
                usual = one_process * 2 + self._pair_seconds if kind == "pair" else one_process
            total += count * usual
        return total
