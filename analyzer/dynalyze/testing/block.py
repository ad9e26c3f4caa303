"""An assertion about a block of the user's own code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from dynalyze.capture import adapter
from dynalyze.recording.recorder import Recording
from dynalyze.testing.quiet import quiet_trace

if TYPE_CHECKING:
    from dynalyze.report import Report

Judge = Callable[["Report", BaseException | None], str]


class CompileCheck:
    """`with` this the block is recorded, and judged at its end; `as seen` is the recording.

    An exception of the block's own goes on as it is. One of the compiler's is judged where `judges_errors`.
    """

    def __init__(self, judge: Judge, *, judges_errors: bool = False) -> None:
        self._judge = judge
        self._judges_errors = judges_errors
        self._recording = Recording()
        self._quiet = ExitStack()

    def __enter__(self) -> Recording:
        self._quiet.enter_context(quiet_trace())
        return self._recording.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._recording.stop(error)
        self._quiet.close()
        if error is not None and not (self._judges_errors and adapter.is_compile_error(error)):
            return
        failure = self._judge(self._recording.report, error)
        if failure:
            raise AssertionError(failure) from None
