"""Listens to Dynamo's structured trace and writes its records as events.

`handle` runs inside the compiler: it must never raise, never re-enter, and stay cheap. Whatever goes wrong here is
written down as a `lost` event, so that a partial recording says so; and at the end the events are held against
what torch itself has counted.
"""

from __future__ import annotations

import dis
import importlib.util
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynalyze.capture.compile_costs import CompileCosts
from dynalyze.capture.events import (
    BreakSeen,
    CacheBypassed,
    CompileEnded,
    CompilerEvent,
    CompileStarted,
    ErrorSeen,
    Event,
    Frame,
    GraphSeen,
    HookSeen,
    Lost,
    RecompileSeen,
    SkippedSeen,
    TracedSeen,
)
from dynalyze.capture.guards import dataset_of, failed_versions, guard_values
from dynalyze.capture.hooks import after_fork
from dynalyze.capture.source_texts import HELD, files_of
from dynalyze.capture.torch_private import cache_keys, dynamo, trace
from dynalyze.capture.torch_private.watching import watch_registrations
from dynalyze.capture.trace_records import (
    STEP,
    CacheKeys,
    TraceRecords,
    cut,
    hit_limit,
    refused_recompile,
    without_addresses,
)
from dynalyze.capture.writer import EventWriter

if TYPE_CHECKING:
    from dynalyze.capture.compile_candidates import Modules
    from dynalyze.capture.uncompiled_methods import UncompiledMethods

_HOW = "# Install depyf beside torch to have this as Python.\n"
DISABLED = "marked with torch.compiler.disable"
_MOST_SKIPS = 1000
_LONGEST_REASON = 500
_MOST_ROOTS = 500
_MOST_HOOKS = 100


@dataclass
class _Handled:
    """How much of what torch counts by itself was handled, and where its counts stood when listening began."""

    since: trace.Counted = field(default_factory=trace.counted)
    graphs: int = 0
    breaks: int = 0
    ends: int = 0


class Listener:
    """Handles torch's trace: the record's own facts, and those that only live objects have.

    `on_each_compile` is called in the thread that compiles, with the number of frames so far, whenever one starts.
    """

    def __init__(self, writer: EventWriter) -> None:
        self.compiled_frames = 0
        self.compile_seconds = 0.0
        self.on_each_compile: Callable[[int], None] | None = None
        self._handled = _Handled()
        self._listening = self._paused = False
        self._writer = writer
        self._busy = threading.local()
        self._records = TraceRecords(dynamo.interned_files())
        self._records.readers.update(CacheKeys(writer.write_text, self._write).readers)
        self._costs = CompileCosts()
        self._traced: set[tuple[str, str, int]] = set()
        self._files: set[str] = set()
        self.skips = Skips(self)
        self.late_hooks = LateHooks(self.emit)
        # They need torch, which is not there yet.
        self._methods: UncompiledMethods | None = None
        self._modules: Modules | None = None
        self.modes_at_error: Any = None
        after_fork(self._after_fork)

    def listen(self) -> Callable[[], None]:
        """Handle all that torch traces from here on; torch must be imported. Returns what ends it."""
        self._listening = True
        self._handled = _Handled()
        return trace.listen(self.handle)

    def handle(self, metadata: dict[str, Any], payload: Any) -> None:
        """One record of the trace, called by the compiler."""
        if self._paused or getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            self._handle(metadata, payload)
        except Exception as error:
            self._lose(error)
        finally:
            self._busy.now = False

    def fetched(self, method: types.MethodType) -> None:
        """The program fetched a method through what torch.compile made of its module."""
        if self._methods is None:
            from dynalyze.capture.uncompiled_methods import UncompiledMethods

            self._methods = UncompiledMethods(self.emit)
        self._methods.fetched(method)

    def end_look(self) -> None:
        """The program has ended: emit what was seen of its uncompiled methods."""
        if self._methods is not None:
            self._methods.end_look()

    def check(self) -> None:
        """Emit what is missing, by torch's own counts. Called when the program has ended."""
        self.end_look()
        if "torch" in sys.modules and not self._listening:
            self.emit(Lost(message="torch was imported past the listener"))
            return
        now, missed = trace.counted(), []
        for part, name in {"graphs": "graphs", "breaks": "graph breaks", "ends": "compiles"}.items():
            # A program can set torch's counts back, so more handled than counted says nothing.
            counted, handled = getattr(now, part) - getattr(self._handled.since, part), getattr(self._handled, part)
            if counted > handled:
                missed.append(f"{counted} {name}, of which {handled} were heard")
        if missed:
            self.emit(Lost(message=f"torch counted {'; '.join(missed)}"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing of what happens inside, which is ours and not the program's; nor is it missed afterwards."""
        self.check()
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self._handled = _Handled()

    def emit(self, event: Event) -> None:
        """Write an event that is not in the trace; never raises."""
        if self._paused:
            return
        try:
            self._write(event)
        except Exception as error:
            self._lose(error)

    def emit_bytecode(self, compile_id: str, code: types.CodeType) -> None:
        """Write down what Dynamo made of a frame. Called by the compiler: the rules of `handle` hold."""
        if self._paused:
            return
        try:
            name = self._writer.write_text(as_python(code))
            self._writer.write(GraphSeen(id=compile_id, epoch=self.epoch, stage="transformed", text=name))
        except Exception as error:
            self._lose(error)

    def forget(self, *, compiling: bool) -> None:
        """Begin anew: what was handled so far is not to count. `compiling`: a frame is just beginning to compile."""
        self.compiled_frames = int(compiling)
        self.compile_seconds = 0.0
        self._handled = _Handled()
        self._traced.clear()
        self._modules = None
        self._records.restart()

    @property
    def breaks(self) -> int:
        return self._handled.breaks

    @property
    def epoch(self) -> int:
        """How many times torch._dynamo.reset() made compile ids begin again."""
        return self._records.epoch

    def _handle(self, metadata: dict[str, Any], payload: Any) -> None:
        if STEP in metadata:
            self._costs.step(payload)
            return
        event = self._records.read(metadata, payload)
        if event is None:
            return
        if isinstance(event, CompileStarted):
            self._add_caller(event)
        elif isinstance(event, GraphSeen):
            event.text = self._writer.write_text(str(payload or ""))
        elif isinstance(event, BreakSeen):
            error = dynamo.live_break()
            event.message, event.type = cut(_message(error)), getattr(error, "gb_type", None)
            event.above, event.inside = dynamo.stack_above(), dynamo.inner_stack(error)
        elif isinstance(event, ErrorSeen):
            _add_error(event)
            self.modes_at_error = _modes()
        elif isinstance(event, RecompileSeen):
            _add_values(event, str(payload or ""))
        elif isinstance(event, CacheBypassed):
            further = _add_refused(event) if event.cache == "autograd" else []
        elif isinstance(event, CompileEnded):
            event.own, event.memory = self._costs.of_compile()
        self._write(event)
        if isinstance(event, CacheBypassed):
            for other in further:
                self._write(other)
        if isinstance(event, CompileEnded):
            self.compile_seconds += dynamo.compile_seconds(event.metrics)
            for unlogged in _unlogged(event):
                self._write(unlogged)
            self._handled.ends += 1
        elif isinstance(event, BreakSeen):
            self._handled.breaks += 1
            self._write_traced(event)
        elif isinstance(event, GraphSeen) and event.stage == "dynamo":
            self._handled.graphs += 1
            self._write_traced(event)

    def _add_caller(self, event: CompileStarted) -> None:
        """The stack, and the module whose code is compiled: a decorated forward is a `wrapper`."""
        self.compiled_frames += 1
        if self._methods is not None:
            self._methods.compiling()
        if self.on_each_compile is not None:
            self.on_each_compile(self.compiled_frames)
        # The event's own stack lacks the callers nearest to the frame; the live one has them.
        event.stack = dynamo.stack_above() or event.stack
        event.thread = threading.get_ident()
        self.late_hooks.compiled(f"{self.epoch} {event.id}", dynamo.modules_of_compile())
        module = dynamo.compiled_module()
        if module is None:
            return
        if self._modules is None:
            from dynalyze.capture.compile_candidates import Modules

            self._modules = Modules()
        code = f"{self.epoch} {event.id.rpartition('/')[0]}"
        event.names = self._modules.met(code, module, dynamo.calling_frames())
        event.owner, event.module = type(module).__qualname__, id(module)

    def _write_traced(self, event: CompilerEvent) -> None:
        fresh = list(dict.fromkeys(each for each in dynamo.traced_functions() if each not in self._traced))
        if fresh:
            self._traced.update(fresh)
            self._write(TracedSeen(id=event.id, epoch=event.epoch, functions=fresh))

    def _write(self, event: Event) -> None:
        """An event, and what is known of each source file that it is the first to name."""
        self._writer.write(event)
        for file in files_of(event):
            if file not in self._files:
                self._files.add(file)
                self._writer.write(HELD.seen(file, self._writer.write_text))

    def _lose(self, error: Exception) -> None:
        try:
            self._writer.write(Lost(message=f"{type(error).__name__}: {error}"[:500]))
        except Exception:
            return  # The disk itself refuses; the parent sees the file end.

    def _after_fork(self) -> None:
        self._busy = threading.local()
        self.compiled_frames = 0
        self._handled = _Handled()
        self._records.restart()


def _modes() -> Any:
    from dynalyze.capture.call_context import Modes

    return Modes.now()


def _add_error(event: ErrorSeen) -> None:
    error = dynamo.live_error()
    behind = dynamo.break_behind(error)
    event.message, event.type = cut(_message(behind or error)), getattr(behind, "gb_type", None)
    event.exception = type(error).__qualname__ if error is not None else ""
    event.logged, event.refused = bool(getattr(error, "logged", False)), dynamo.refuses_breaks(error)
    event.above = dynamo.stack_above()
    event.inside = dynamo.inner_stack(error) if hasattr(error, "real_stack") else []


def _add_refused(event: CacheBypassed) -> list[CacheBypassed]:
    """The line of the operation that AOTAutograd's cache refused; gives those that it would refuse next."""
    found = [
        CacheBypassed(
            id=event.id, epoch=event.epoch, attempt=event.attempt, cache=event.cache,
            reason=without_addresses(refusal.reason),
            place=Frame(*refusal.place) if refusal.place is not None else None, next_one=refusal.next_one, further=True,
        )
        for refusal in cache_keys.refused()
    ]  # fmt: skip
    if found:
        event.place, event.next_one = found[0].place, found[0].next_one
    return found[1:]


def _add_values(event: RecompileSeen, reasons: str) -> None:
    event.expected, event.actual = guard_values(reasons)
    event.versions = failed_versions()
    event.call, event.last_batch_of = dynamo.outermost_call(), dataset_of(reasons)


def _unlogged(end: CompileEnded) -> Iterator[CompilerEvent]:
    """What torch has no record of where it refuses to compile a function again: what it raised, and why."""
    refused = dynamo.raises_at_limit(dynamo.live_error()) if hit_limit(end.metrics) else None
    if refused is not None:
        error = ErrorSeen(id=end.id, epoch=end.epoch, attempt=end.attempt)
        _add_error(error)
        error.refused = refused
        yield error
    reasons = refused_recompile(end.metrics)
    if reasons:
        recompile = RecompileSeen(id=end.id, epoch=end.epoch, attempt=end.attempt, text=cut(reasons))
        _add_values(recompile, reasons)
        yield recompile


def _message(error: BaseException | None) -> str:
    if error is None:
        return ""
    message = getattr(error, "msg", None)
    return message if isinstance(message, str) else str(error)


def as_python(code: types.CodeType) -> str:
    """Readable text of a code object; always valid Python, comments at worst."""
    head = _HOW
    if importlib.util.find_spec("depyf") is not None:
        try:
            depyf: Any = importlib.import_module("depyf")
            return f"{str(depyf.decompile(code)).rstrip()}\n"
        except Exception as error:  # Bytecode of a newer Python, say.
            reason = " ".join(str(error).split())[:200]
            head = f"# depyf could not decompile this: {type(error).__name__}: {reason}\n"
    lines = [f"{code.co_name}:", *dis.Bytecode(code).dis().splitlines()]
    return head + "".join(f"# {line}".rstrip() + "\n" for line in lines)


class Skips:
    """Emits a function that is left in eager; again, with the count, when that has doubled."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._counts: dict[tuple[Any, ...], int] = {}
        self._busy = threading.local()

    def emit(self, skipped: SkippedSeen) -> None:
        """Called by the compiler: must not raise, and must not be called by what it does itself."""
        if getattr(self._busy, "now", False):
            return
        self._busy.now = True
        try:
            skipped.reason = skipped.reason.partition("\n")[0][:_LONGEST_REASON]
            key = (skipped.code, skipped.reason)
            skipped.count = self._counts.get(key, 0) + 1
            if skipped.count > 1 or len(self._counts) < _MOST_SKIPS:
                self._counts[key] = skipped.count
                if skipped.count & (skipped.count - 1) == 0:
                    self._listener.emit(skipped)
        except Exception as error:
            self._listener.emit(Lost(message=f"skipped function: {type(error).__name__}: {error}"[:500]))
        finally:
            self._busy.now = False

    def emit_disabled(self, target: Any) -> None:
        """A function that is given to torch.compile although it is marked as never to be compiled."""
        code = trace.marked_disabled(target)
        if code is not None:
            self.emit(SkippedSeen(code=dynamo.definition_of(code), reason=DISABLED, entry=True, tensors=True))


class LateHooks:
    """Emits each hook that is registered on a module below one that was in the frame of a compile, and is there when
    something compiled is called: that never runs it.
    """

    def __init__(self, emit: Callable[[HookSeen], None]) -> None:
        self._emit = emit
        self._roots: dict[weakref.ref[Any], list[str]] = {}
        self._hooked: dict[int, weakref.ref[Any]] = {}
        self._waiting: list[tuple[HookSeen, weakref.ref[Any], Callable[[], bool]]] = []
        self._number = 0

    def compiled(self, key: str, modules: Iterable[Any]) -> None:
        """A compile, by its epoch and id, and the modules in whose names its frame has them."""
        for module in modules:
            if len(self._roots) < _MOST_ROOTS:
                self._roots.setdefault(weakref.ref(module), []).append(key)
            for number in [number for number, hooked in self._hooked.items() if _holds(module, hooked())]:
                del self._hooked[number]
                self._emit(HookSeen(number=number, met=True))
            self._waiting = [each for each in self._waiting if not _holds(module, each[1]())]

    def watch(self) -> Callable[[], None]:
        """Look at registrations from here on; Dynamo must be imported. Returns what ends it."""
        end = watch_registrations(self._registered)

        def stop() -> None:
            end()
            self._waiting.clear()

        return stop

    def _called(self, _: int) -> bool:
        """Something compiled is called: emit what is registered now, and look at no further calls."""
        waiting, self._waiting = self._waiting, []
        for event, module, is_there in waiting:
            if is_there():
                self._hooked[event.number] = module
                self._emit(event)
        return False

    def _registered(self, module: Any, method: str, is_there: Callable[[], bool]) -> None:
        if not self._roots or self._number >= _MOST_HOOKS or not dynamo.hooks_go_unguarded():
            return
        roots = list(self._roots.items())
        keys = dict.fromkeys(key for root, compiles in roots if _holds(root(), module) for key in compiles)
        caller = next(dynamo.calling_frames(), None)
        if keys and caller is not None:
            from dynalyze.capture.torch_private.compiled_calls import watch_outermost_calls

            self._number += 1
            place, name = dynamo.entry(caller), type(module).__qualname__
            event = HookSeen(place, method, name, list(keys), self._number)
            self._waiting.append((event, weakref.ref(module), is_there))
            if len(self._waiting) == 1 and not watch_outermost_calls(self._called):
                self._called(0)


def _holds(root: Any, module: Any) -> bool:
    """Whether a module is another, or a part of it; a module that is gone is none."""
    return root is not None and module is not None and any(each is module for each in root.modules())
