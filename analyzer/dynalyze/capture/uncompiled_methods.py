"""Methods that a program calls on what torch.compile made of a module: the original module runs them, in eager."""

from __future__ import annotations

import threading
import time
import types
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

from dynalyze.capture.events import Frame, MethodSeen, PartSeen
from dynalyze.capture.in_place import ModuleCalls
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.torch_private.compiled_calls import (
    being_traced,
    holds_compiled,
    in_backward,
    is_compiled_module,
)

_MOST_METHODS = 50
_MOST_LOOKS = 3
"""So often a method is looked at of which no call of a module was seen."""
_MOST_DECORATORS = 10


class UncompiledMethods:
    """Emits each method that called parts of its module in eager, once.

    From the moment in which a method is fetched through the wrapper, calls of modules are looked at, until one comes
    that is not below that method. The program gets the method itself, and later calls of it cost nothing.
    """

    def __init__(self, emit: Callable[[MethodSeen], None]) -> None:
        self._emit = emit
        self._looks: Counter[tuple[type, str]] = Counter()
        self._look: _Look | None = None

    def fetched(self, method: types.MethodType) -> None:
        """A method was fetched through the wrapper."""
        try:
            self._begin(method)
        except Exception:  # The program is to get its method, whatever becomes of a fact.
            self._look = None

    def compiling(self) -> None:
        """Something begins to compile: a method below which that happens does not run in eager."""
        if self._look is not None and self._look.is_running():
            self._look.parts.clear()
        self.end_look()

    def end_look(self) -> None:
        """Emit what was seen of a method that was called."""
        look, self._look = self._look, None
        if look is not None:
            look.calls.remove()
            if look.parts:
                self._looks[look.key] = _MOST_LOOKS
                self._emit(look.event())

    def _begin(self, method: types.MethodType) -> None:
        if self._look is not None:
            if self._look.thread != threading.get_ident() or self._look.is_running():
                return
            self.end_look()
        key = type(method.__self__), method.__name__
        if self._looks[key] >= _MOST_LOOKS or len(self._looks) > _MOST_METHODS:
            return
        look = _Look(key, method, self.end_look)
        if look.may_begin():
            self._looks[key] += 1
            self._look = look
            look.calls.install()


class _Look:
    """A method from when it is fetched until it has returned: the calls of its module and of parts of that below it."""

    def __init__(self, key: tuple[type, str], method: types.MethodType, end: Callable[[], None]) -> None:
        self.key = key
        self.thread = threading.get_ident()
        self.calls = ModuleCalls(self._handle, new=False)
        self.parts: dict[int, PartSeen] = {}
        module: Any = method.__self__
        self._module = weakref.ref(module)
        self._paths = {id(part): path for path, part in module.named_modules()}
        self._codes = _codes_of(method.__func__)
        self._fetched = _line_of(next(dynamo.calling_frames(), None))
        self._place = Frame()
        self._end = end
        self._seconds = 0.0

    def may_begin(self) -> bool:
        """Whether the method would be compiled if the program had compiled it."""
        off = dynamo.stance() == "force_eager" or dynamo.dynamo_disabled()
        return bool(self._codes and not off and not being_traced() and not holds_compiled(self._module()))

    def is_running(self) -> bool:
        """Whether this is called below the method, which was called in the line that fetched it."""
        frames = dynamo.calling_frames()
        if not any(frame.f_code in self._codes for frame in frames):
            return False
        caller = next((frame for frame in frames if frame.f_code not in self._codes), None)
        if caller is None or _line_of(caller) != self._fetched:
            return False
        if not self._place.file:
            self._place = dynamo.entry(caller)
        return True

    def event(self) -> MethodSeen:
        parts, (kind, method) = list(self.parts.values()), self.key
        return MethodSeen(self._place, method, kind.__qualname__, parts, self._seconds, id(self._module()))

    def _handle(self, call: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if threading.get_ident() != self.thread or being_traced() or in_backward():
            return call(module, *args, **kwargs)
        if not self.is_running():
            self._end()
            return call(module, *args, **kwargs)
        if is_compiled_module(module) and module._orig_mod is self._module():
            self.parts.clear()  # Its compiled forward does run.
            self._end()
            return call(module, *args, **kwargs)
        self.calls.thread.inside, began = True, time.perf_counter()
        try:
            return call(module, *args, **kwargs)
        finally:
            self.calls.thread.inside = False
            if self.calls.active and (path := self._paths.get(id(module))) is not None:
                home = str(getattr(type(module).forward, "__module__", ""))
                of_torch = home.partition(".")[0] == "torch"
                part = self.parts.setdefault(id(module), PartSeen(path, of_torch=of_torch))
                part.calls += 1
                self._seconds += time.perf_counter() - began


def _codes_of(function: Any) -> set[types.CodeType]:
    """The code of a function and of what its decorators wrap."""
    found = set()
    for _ in range(_MOST_DECORATORS):
        if (code := getattr(function, "__code__", None)) is not None:
            found.add(code)
        function = getattr(function, "__wrapped__", None)
    return found


def _line_of(frame: types.FrameType | None) -> tuple[types.CodeType, int] | None:
    return None if frame is None else (frame.f_code, frame.f_lineno)
