"""Which compiled version of which function runs in a call, and which functions run uncompiled in spite of theirs.

Told by code objects: what Dynamo makes of a function is another one than the function's own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any

from dynalyze.capture.hooks import after_import
from dynalyze.capture.torch_private import dynamo, runtime
from dynalyze.capture.torch_private.dynamo import StackFrame, frame_entry


@dataclass
class Ran:
    """What ran: compiled versions by their number, each with its function, and functions without any of theirs."""

    versions: list[tuple[int, StackFrame]] = field(default_factory=list)
    in_eager: list[StackFrame] = field(default_factory=list)


class Versions:
    """Every compiled version with a graph that is made in this process, numbered from 1."""

    def __init__(self) -> None:
        # By identity: two functions may have equal code. What is kept here keeps its identity.
        self._originals: dict[int, CodeType] = {}
        self._made: dict[int, tuple[int, CodeType, CodeType]] = {}

    def listen(self) -> None:
        """Hear of them from the moment when Dynamo is imported."""
        after_import("torch._dynamo.convert_frame", self._attach)

    def _attach(self, _: ModuleType) -> None:
        dynamo.watch_bytecode(self._add)

    def watch(self, action: Callable[[], Any]) -> Ran:
        """Run `action` and look at every call in it, also those of threads that it starts."""
        seen: dict[int, CodeType] = {}
        known = {**self._originals, **{key: made for key, (_, made, _) in self._made.items()}}

        def see(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and id(frame.f_code) in known:
                seen.setdefault(id(frame.f_code), frame.f_code)

        threading.setprofile(see)
        sys.setprofile(see)
        try:
            action()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self._ran(seen)

    def _ran(self, seen: dict[int, CodeType]) -> Ran:
        ran = Ran()
        for key, code in seen.items():
            if key in self._made:
                number, _, original = self._made[key]
                ran.versions.append((number, _place(original)))
            else:
                ran.in_eager.append(_place(code))
        return ran

    def _add(self, original: CodeType, made: CodeType) -> None:
        if runtime.calls_a_graph(made):
            self._originals.setdefault(id(original), original)
            self._made[id(made)] = (len(self._made) + 1, made, original)


def _place(code: CodeType) -> StackFrame:
    return frame_entry(code.co_filename, code.co_firstlineno, code.co_name, None, None)
