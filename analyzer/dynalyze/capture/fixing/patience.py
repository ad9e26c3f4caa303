"""An end for calls that go round for ever with inputs nobody gave them: `while x.max() > 1: x = x / 2` at infinity."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class Endless(BaseException):
    """It has not ended in time. No Exception: what the program does about its own errors must not catch it."""


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise Endless inside where that takes longer. Without signals, or in another thread, nothing ends it."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: Any) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
