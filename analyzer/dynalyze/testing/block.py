"""An assertion about a block of the user's own code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

import torch

from dynalyze.capture.torch_private import dynamo
from dynalyze.recording.recorder import Recording
from dynalyze.testing.quiet import quiet_trace

if TYPE_CHECKING:
    from dynalyze.report import Report

Judge = Callable[["Report", BaseException | None], str]


class CompileCheck:
    """`with` this the block is recorded, and judged at its end; `as seen` is the recording.

    An exception of the block's own goes on as it is. One of the compiler's is judged where `judges_errors`. With
    `clean` nothing that was compiled before serves the block, and nothing of the block stays.
    """

    def __init__(self, judge: Judge, *, judges_errors: bool = False, clean: bool = False) -> None:
        self._judge = judge
        self._judges_errors = judges_errors
        self._clean = clean
        self._recording = Recording()
        self._around = ExitStack()

    def __enter__(self) -> Recording:
        self._around.enter_context(quiet_trace())
        if self._clean:
            torch.compiler.reset()
            self._around.callback(torch.compiler.reset)
        return self._recording.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        __tracebackhide__ = True
        self._recording.stop(error)
        self._around.close()
        if error is not None and not (self._judges_errors and dynamo.is_compile_error(error)):
            return
        failure = self._judge(self._recording.report, error)
        if failure:
            raise AssertionError(failure) from None
