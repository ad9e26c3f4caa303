"""Ctrl-C as something to count, not as an exception that strikes anywhere."""

from __future__ import annotations

import math
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

# Programs that start us (uv run, timeout) pass Ctrl-C on, so one press may arrive twice.
_ONE_PRESS_SECONDS = 0.5


class Interrupts:
    """Counts the presses of Ctrl-C (SIGINT) that come inside its `with` block.

    In a thread that is not the main one, and where SIGINT is ignored or handled in C, everything stays as
    it is and the count is 0: Python lets only the main thread decide.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last = -math.inf
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        handler = signal.getsignal(signal.SIGINT)
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and handler not in (None, signal.SIG_IGN):
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _came(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self.count += now - self._last >= _ONE_PRESS_SECONDS
        self._last = now
