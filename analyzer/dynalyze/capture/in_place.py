"""Compiles the modules of a program that compiles nothing, in the very calls that the program makes of them.

The outermost call of a module that owns parameters runs as `module = torch.compile(module)` would have made it: the
program's own hooks, inputs, modes, loop and backward stay as they are. As soon as the program compiles something by
itself, nothing more is compiled here.

Their calls are seen on the class: nn.Module.__call__ is wrapped, and so is each `__call__` that a class brings of its
own. A hook would be traced into the program's compile, and nothing is attached to any instance.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree

from dynalyze.capture.calls import Call, Recorder
from dynalyze.capture.compile_candidates import CompileCandidate, CompileCandidates
from dynalyze.capture.compile_selection import CompileSelection
from dynalyze.capture.events import (
    CandidatesCounted,
    CandidateSeen,
    Emit,
    InPlaceDropped,
    InPlaceFailed,
    InPlaceStarted,
    Lost,
    MadeInEager,
)
from dynalyze.capture.held import hold
from dynalyze.capture.hooks import ORIGINAL_MARK, after_fork
from dynalyze.capture.torch_private import compiled_calls
from dynalyze.capture.torch_private.compiled_calls import (
    being_traced,
    being_transformed,
    in_backward,
    raised_by_compiler,
)
from dynalyze.capture.torch_private.dynamo import forget_compiled
from dynalyze.capture.wire import CandidateReason

_Call = Callable[..., Any]
CompileModule = Callable[[Any], _Call]
_EMIT_SECONDS = 10.0
Handler = Callable[[_Call, Any, tuple[Any, ...], dict[str, Any]], Any]
"""Makes a call of a module: given the original `__call__`, the module and its arguments, returns its outputs."""


class InPlace:
    """Sees every outermost module call of this process; compiles it, records it for a benchmark, and counts it.

    Args:
        emit: writes an event; never raises.
        compile_module: makes the compiled callable of a module; None leaves every call in eager.
        recorder: keeps copies of the calls, None where nothing will be measured.
        chosen: what the user wants compiled in place of the outermost modules.
        compile_seconds: seconds that this process has compiled so far.
        forget: drops what was recorded of compiling so far; `compiling`: a frame of the program's is just beginning to.
    """

    def __init__(
        self,
        emit: Emit,
        compile_module: CompileModule | None,
        recorder: Recorder | None = None,
        chosen: CompileSelection | None = None,
        compile_seconds: Callable[[], float] = lambda: 0.0,
        forget: Callable[..., None] = lambda **_: None,
    ) -> None:
        self._emit = emit
        self._compile = compile_module
        self._recorder = recorder
        self._selection = chosen or CompileSelection([])
        self._selection.stand_in = self._stand_in
        self._compile_seconds = compile_seconds
        self._forget = forget
        self._calls = ModuleCalls(self._handle)
        self.install = self._calls.install
        self._compiling = threading.local()
        self._lock = threading.RLock()
        self.seen = CompileCandidates()
        self.compiled_any = False
        self._set_up_seconds = 0.0  # importing the compiler, above all
        self._began = self._emitted = self._now()

    def start_clock(self) -> None:
        """The program begins now: shares are of the time from here on."""
        self._began = self._now()

    def remove(self) -> None:
        """See no more calls; what was recorded and counted stays."""
        self._calls.remove()
        if self._recorder is not None:
            self._recorder.stop()

    @property
    def compiling_here(self) -> bool:
        """Whether this thread is inside of a call that is compiled here: what compiles now is not the program's."""
        return getattr(self._compiling, "now", False)

    def leave_to_program(self, *, at_rest: bool) -> None:
        """The program compiles by itself: compile nothing more, and what had been compiled here is not to count.

        With `at_rest` no compile is in progress, so that torch can forget it too: a recompile that is set off by code
        of ours would be reported as the program's.
        """
        self._compile = None
        dropped, self.compiled_any = self.compiled_any, False
        if dropped:
            self._emit(InPlaceDropped())
            if at_rest:
                forget_compiled()
            self._forget(compiling=not at_rest)

    def emit_seen(self) -> None:
        """The table of all that could have been compiled, with what became of it: so far, it may be killed."""
        self._emitted = self._now()
        self._emit(CandidatesCounted(seconds=self._emitted - self._began, entries=self.seen.entries()))

    def compiled_modules(self) -> Iterator[tuple[str, Any, Call | None]]:
        """Every module that was compiled, by name, with a call of it that can be made again where there is one."""
        kept = {id(call.module): call for call in (self._recorder.calls if self._recorder else ()) if call.kept}
        for name, module in self.seen.compiled() if self._compile is not None else ():  # None: left to the program.
            yield name, module, kept.get(id(module))

    def _handle(self, call: _Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        thread = self._calls.thread
        replica = "_is_replica" in getattr(module, "__dict__", ())
        if being_traced() or in_backward() or replica or self._in_constructor(module):
            with contextlib.suppress(Exception):
                if in_backward():
                    self._first_look(module).left["backward"] += 1  # No call of the program's: torch makes it again.
                elif being_transformed():
                    self.seen.add_transforming(module)
            thread.inside = True  # Neither this nor what it calls is to be compiled.
            try:
                return call(module, *args, **kwargs)
            finally:
                thread.inside = False
        try:
            seen = self._first_look(module)
            reason = self._left_alone(seen, module)
            seen.taken = seen.taken or not reason
            if not seen.calls:
                compiles = self._compile is not None and not reason
                self._emit(CandidateSeen(entry=replace(seen.entry(), reason=reason, compiled=compiles)))
        except Exception as error:  # Names are looked for among objects of the program's: nothing may reach it.
            self._emit(Lost(message=f"a call of {type(module).__name__}: {type(error).__name__}: {error}"[:500]))
            return call(module, *args, **kwargs)
        began = self._now()
        try:
            thread.inside = not reason or reason == "part_of_compiled"
            if reason:
                return call(module, *args, **kwargs)
            return self._recorded(seen, call, module, args, kwargs)
        finally:
            thread.inside = False
            now = self._now()
            seen.called(now - began, reason)
            if now - self._emitted > _EMIT_SECONDS:
                self.emit_seen()

    def _now(self) -> float:
        """Seconds on a clock that stands still while something compiles."""
        return time.monotonic() - self._set_up_seconds - self._compile_seconds()

    def _stand_in(self, function: Any, name: str) -> Callable[..., Any]:
        """The wrapper that replaces a function that the user chose."""
        is_compiling, thread = torch.compiler.is_compiling, self._calls.thread
        with self._lock:
            self.seen.add(function, name)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or thread.inside:
                return function(*args, **kwargs)
            return self._handle(_call_function, function, args, kwargs)

        return call

    def stand_in_for_tensors(self, function: Any, name: str) -> Callable[..., Any]:
        """What takes the place of a function that calls a model through torch.func: its calls with tensors count."""
        is_compiling = torch.compiler.is_compiling
        made: list[Callable[..., Any]] = []

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._compile is None or being_traced():
                return function(*args, **kwargs)
            if not any(isinstance(each, torch.Tensor) for each in _pytree.tree_leaves((args, kwargs))):
                return function(*args, **kwargs)
            if not made:
                made.append(self._stand_in(function, name))
                self._first_look(function).transforms = True
            return made[0](*args, **kwargs)

        return call

    def _first_look(self, module: Any) -> CompileCandidate:
        with self._lock:
            seen = self.seen.find(module)
            if seen is None:
                self._selection.resolve()
                seen = self.seen.add(module)
            return seen

    def _in_constructor(self, module: Any) -> bool:
        """Whether it is called for the first time, by the constructor of the module that it becomes a part of."""
        if self.seen.find(module) is not None or not self.seen.in_constructor():
            return False
        self._selection.resolve()
        return module not in self._selection

    def _left_alone(self, seen: CompileCandidate, module: Any) -> CandidateReason:
        """Why a call is not compiled, "" where it is; what it calls may be."""
        if isinstance(module, torch.jit.ScriptModule):
            return "torchscript"
        if torch.utils.data.get_worker_info() is not None:
            return "worker"
        if seen.kind != "module":
            return ""
        if self._selection:
            return "" if module in self._selection else "not_chosen"
        if seen.taken:
            return ""
        if not seen.parameters or not self.seen.owns_parameters(module):
            return "no_parameters"
        if self.seen.is_full(seen):
            return "too_many"
        return "part_of_compiled" if self.seen.is_part_of_compiled(module) else ""

    def _recorded(
        self,
        seen: CompileCandidate,
        call: Callable[..., Any],
        module: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._recorder is None or not self._recorder.recording:
            return self._made(seen, call, module, args, kwargs)
        kept = self._recorder.begin(module, args, kwargs)
        try:
            result = self._made(seen, call, module, args, kwargs)
        except BaseException as error:
            self._recorder.failed(kept, error)
            raise
        self._recorder.end(kept, result)
        return result

    def _made(
        self,
        seen: CompileCandidate,
        call: Callable[..., Any],
        module: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """The outputs of a call, from the compiled module where it compiles."""
        compiled = self._compiled(seen, module)
        if compiled is None:
            return call(module, *args, **kwargs)
        self._compiling.now = True
        try:
            return compiled(*args, **kwargs)
        except Exception as error:
            # A transform of torch.func that Dynamo gives up in the middle of raises all kinds of errors.
            if not raised_by_compiler(error) and not seen.transforms:
                raise
            failed = error
        finally:
            self._compiling.now = False
        try:
            result = call(module, *args, **kwargs)
        except Exception as error:  # The program's own.
            self._emit(MadeInEager(error=f"{type(error).__name__}: {error}"[:1000]))
            raise
        self._emit(MadeInEager())
        # What raises under compile runs in eager from here on, this call included.
        lines = [line.strip() for line in f"{type(failed).__name__}: {failed}".splitlines() if line.strip()]
        seen.error = " ".join(lines[: 2 if lines[0].endswith(":") else 1])[:500]
        self._emit(InPlaceFailed(name=seen.name, class_name=seen.class_name, error=seen.error))
        return result

    def _compiled(self, seen: CompileCandidate, module: Any) -> Callable[..., Any] | None:
        if self._compile is None or seen.error:
            return None
        with self._lock:
            compiled = hold(module).compiled(self._compile_now)
            seen.was_compiled = True
            return compiled

    def _compile_now(self, module: Any) -> Callable[..., Any]:
        assert self._compile is not None
        if not self.compiled_any:
            self.compiled_any = True
            self._emit(InPlaceStarted())
        began, self._compiling.now = time.monotonic(), True
        try:
            return self._compile(module)
        finally:
            self._compiling.now = False
            self._set_up_seconds += time.monotonic() - began


def _call_function(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


class _Thread(threading.local):
    inside = False
    """A call of this thread is handled as a whole: the calls below it go straight through."""


class ModuleCalls:
    """Hands each call of a module to `handle`, but for those that a compiler watches and those `inside` of another.

    Of two that are active, the later one has to end first; the earlier one alone can look at classes that are `new`.
    """

    def __init__(self, handle: Handler, *, new: bool = True) -> None:
        self.handle = handle
        self._new = new
        self.active = False
        self.thread = _Thread()
        self._wrapped: list[tuple[type[torch.nn.Module], Any, Any]] = []
        after_fork(self._after_fork)

    def install(self) -> None:
        """Begin. Called right after torch was imported."""
        self.active = True
        self._wrap(torch.nn.Module)
        _, original, wrapper = self._wrapped[-1]
        _replace_copies(original, wrapper)
        for kind in _subclasses(torch.nn.Module):
            self._defined(kind)
        if self._new:
            torch.nn.Module.__init_subclass__ = classmethod(lambda kind, **rest: self._new_class(kind, rest))

    def remove(self) -> None:
        """Put the originals back; cheap, from any thread, as often as you like."""
        if not self.active:
            return
        self.active = False
        if self._new:
            del torch.nn.Module.__init_subclass__
        for kind, original, wrapper in self._wrapped:
            # Somebody else may have patched it after us: then our wrapper stays below theirs, and only passes on.
            if vars(kind).get("__call__") is wrapper:
                kind.__call__ = original
            _replace_copies(wrapper, original)

    def _wrap(self, kind: type[torch.nn.Module]) -> None:
        original = vars(kind)["__call__"]
        kind.__call__ = wrapper = _wrapping(self, original)
        self._wrapped.append((kind, original, wrapper))

    def _new_class(self, kind: type[torch.nn.Module], rest: dict[str, Any]) -> None:
        super(torch.nn.Module, kind).__init_subclass__(**rest)
        if self.active:
            self._defined(kind)

    def _defined(self, kind: type[torch.nn.Module]) -> None:
        """A class of the program or of a library; torch's own, and those made by compilers, are left alone."""
        is_torchs = kind.__module__.partition(".")[0] == "torch"
        if isinstance(vars(kind).get("__call__"), types.FunctionType) and not is_torchs:
            self._wrap(kind)

    def _after_fork(self) -> None:
        self.thread.inside = False


def _wrapping(calls: ModuleCalls, original: Callable[..., Any]) -> Callable[..., Any]:
    thread = calls.thread
    is_compiling = torch.compiler.is_compiling
    compile_callback = compiled_calls.compile_callback

    def _wrapped_call_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Only calls into C before the first return: under torch.compile a frame of ours would be compiled too.
        if is_compiling() or thread.inside or not calls.active or compile_callback() is not None:
            return original(self, *args, **kwargs)
        return calls.handle(original, self, args, kwargs)

    # The name and a place in the file of torch's own: torch's rules on what to skip and to inline go by both, and would
    # compile the frame of any other. All else is the original's.
    place, code = torch.nn.Module._call_impl.__code__, _wrapped_call_impl.__code__
    _wrapped_call_impl.__code__ = code.replace(co_filename=place.co_filename, co_firstlineno=place.co_firstlineno)
    if isinstance(original, types.FunctionType):
        for name in ("__module__", "__qualname__", "__doc__"):
            setattr(_wrapped_call_impl, name, getattr(original, name))
        _wrapped_call_impl.__annotations__ = dict(original.__annotations__)
    setattr(_wrapped_call_impl, ORIGINAL_MARK, original)
    return _wrapped_call_impl


def _replace_copies(old: Any, new: Any) -> None:
    """torch compares nn.Module.__call__ with copies taken at import, to see that nobody patched it."""
    for name, attribute in compiled_calls.CALL_COPIES:
        module = sys.modules.get(name)
        if module is not None and getattr(module, attribute, None) is old:
            setattr(module, attribute, new)


def _subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
