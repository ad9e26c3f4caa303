"""Ctrl-C, and the signals by which CI, Slurm and Kubernetes end a program.

Inside `as_exceptions`, which is around a whole command, a signal raises an exception, so that the command cleans up.
Inside a `with Interrupts()` block the first signal is only counted: the block looks at the count, ends what runs and
reports. The second signal ends the command.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))  # The last two not on Windows.
# Programs that start us (uv run, timeout) pass a signal on, and so does the shell of a terminal that closes.
_ONE_PRESS_SECONDS = 0.5


class EndedBySignal(BaseException):
    """A signal is to end the command now; no `except Exception` on the way keeps it alive."""


class Interrupts:
    """Counts the signals that come inside its `with` block and the blocks around it.

    `killing`: a second signal is counted too, because it kills what runs in the block. SIGINT always counts, the others
    inside `as_exceptions`. Nothing changes in a thread other than the main one, which alone may handle signals, nor for
    a signal that is ignored (nohup) or handled in C.
    """

    def __init__(self, *, killing: bool = False) -> None:
        self._killing = killing
        self._before: Any = None

    @property
    def count(self) -> int:
        """Signals since the outermost block began; repeats within half a second are one."""
        return _signals.count

    def __enter__(self) -> Interrupts:
        if _in_main_thread():
            if not (_signals.blocks or _signals.commanding):
                _signals.forget()
            _signals.blocks += 1
            _signals.killers += self._killing
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler) and handler != _signals.handle:
                self._before = signal.signal(signal.SIGINT, _signals.handle)
        return self

    def __exit__(self, *error: object) -> None:
        if _in_main_thread():
            if self._before is not None:
                signal.signal(signal.SIGINT, self._before)
            _signals.blocks -= 1
            _signals.killers -= self._killing


@contextmanager
def as_exceptions() -> Iterator[None]:
    """Each of SIGNALS that is not ignored raises EndedBySignal, unless `Interrupts` counts it."""
    before: dict[signal.Signals, Any] = {}
    if _in_main_thread():
        _signals.forget()
        for number in SIGNALS:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, _signals.handle)
        _signals.commanding = True
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _signals.commanding = False


def first_signal() -> signal.Signals | None:
    """The signal that ends what runs; None where none came."""
    return _signals.first


def last_signal() -> signal.Signals | None:
    return _signals.last


def how_it_ended() -> str:
    """A sentence on the first signal, for a report."""
    number = _signals.first or signal.SIGINT
    return "Interrupted from the keyboard." if number == signal.SIGINT else f"Ended by {number.name}."


class _SignalCount:
    """The signals of this process. A signal has one handler, however many blocks are nested."""

    def __init__(self) -> None:
        self.commanding = False
        self.blocks = self.killers = 0
        self.forget()

    def forget(self) -> None:
        self.first: signal.Signals | None = None
        self.last: signal.Signals | None = None
        self.count = 0
        self._last = -math.inf
        self._unwinding = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        again, self._last = now - self._last < _ONE_PRESS_SECONDS, now
        if again or self._unwinding:
            return
        self.count += 1
        self.last = signal.Signals(number)
        self.first = self.first or self.last
        if self.killers or (self.blocks and self.count == 1):
            return
        self._unwinding = True  # What is cleared away from here on is not interrupted.
        raise EndedBySignal


_signals = _SignalCount()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
