"""Listens in a process that is not ours, for a while: attaches what the child of a run attaches, and takes it away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from dynalyze.capture import environment
from dynalyze.capture.attach import watch_untraced
from dynalyze.capture.hooks import after_import
from dynalyze.capture.inspecting.telling import Inspection, watch_compile_calls
from dynalyze.capture.listener import Listener
from dynalyze.capture.skips import Skips
from dynalyze.capture.source_texts import HELD
from dynalyze.capture.writer import EventWriter

Undo = Callable[[], None]


class InProcess:
    """What this process compiles between `start` and `stop`, in any of its threads, as events below a run folder."""

    def __init__(self, run: Path) -> None:
        self._writer = EventWriter(run, main=True)
        self._listener = Listener(self._writer)
        self._inspection = Inspection(self._listener.tell, at_once=False)
        self._listener.on_each_compile = self._inspection.compiling
        self._undo: list[Undo] = []

    def start(self) -> None:
        """Attach everything, to torch itself once it is imported."""
        skips = Skips(self._listener)
        self._undo.append(HELD.watch())
        self._listener.tell("child_start")
        self._when_imported("torch", self._attach)
        self._when_imported("torch._dynamo.exc", lambda _: watch_untraced(self._listener))
        self._when_imported("torch._dynamo.convert_frame", lambda _: skips.watch())

    def stop(self) -> None:
        """Leave torch as it was found; what it was told is complete then."""
        self._inspection.look_again()
        if not self._listener.compiled_frames and "torch" in sys.modules:
            self._listener.tell("silence", wrapped=[], **environment.compile_switches())
        self._listener.check()
        while self._undo:
            self._undo.pop()()
        self._writer.close()

    def given(self, module: object, file: str, line: int) -> None:
        """A module that had been given to torch.compile before: it is looked at as those given from here on are."""
        self._inspection.given(module, file, line, {})

    def _attach(self, torch: ModuleType) -> Undo:
        self._undo.append(self._listener.listen())
        return watch_compile_calls(torch, self._inspection)

    def _when_imported(self, name: str, attach: Callable[[ModuleType], Undo]) -> None:
        self._undo.append(after_import(name, lambda module: self._undo.append(attach(module))))
