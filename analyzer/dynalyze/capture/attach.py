"""Attaches the listener as soon as the program imports torch: in the target's process, in those that it starts, and for
a while in a process that is not ours.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dynalyze.capture import environment, overlay
from dynalyze.capture.compile_calls import Undo, watch_compile_calls
from dynalyze.capture.events import BreakSeen, CompileCall, CudagraphSkipped
from dynalyze.capture.hooks import after_import
from dynalyze.capture.inspecting.module_watch import Inspection
from dynalyze.capture.listener import Listener
from dynalyze.capture.source_texts import HELD
from dynalyze.capture.torch_private import cache_keys, dynamo, trace, watching
from dynalyze.capture.trace_records import cut
from dynalyze.capture.wire import BOOT_FOLDER, BYTECODE_FILE, REQUEST_FILE, RUN_VARIABLE, TRACE_FOLDER, TRACE_VARIABLE
from dynalyze.capture.writer import EventWriter, has_event

OnImport = Callable[[ModuleType], "Undo | None"]
"""Called once a module is imported; returns what ends what it began, or None."""


def attach_to_descendant() -> None:
    """Listen in a process that the target started; does nothing outside a run of dynalyze."""
    folder = os.environ.get(RUN_VARIABLE)
    if not folder or not Path(folder).is_dir():
        return
    run = Path(folder)
    request = json.loads((run / REQUEST_FILE).read_text(encoding="utf-8"))
    overlay.put_over(request.get("changes", {}))
    listener = Listener(EventWriter(run))

    def torch_loaded(torch: ModuleType) -> None:
        listener.listen()
        atexit.register(listener.check)
        inspection = Inspection(listener.emit, at_once=False)
        listener.on_each_compile = inspection.compiling
        watch_compile_calls(torch, inspection, _compile_in_place(listener, inspection, run, request))

    attach(listener, run, torch_loaded)


def attach(listener: Listener, run: Path, torch_loaded: OnImport) -> None:
    """Record what this process compiles, from when it imports torch; `torch_loaded` is called with it then, or now."""
    # torch's own log, where we asked for it, would record everything twice where the listener is.
    own_trace = TRACE_VARIABLE if os.environ.get(TRACE_VARIABLE) == str(run / TRACE_FOLDER) else ""
    _attach(listener, torch_loaded, own_trace)

    def skipped(compile_id: str, reason: str) -> None:
        listener.emit(CudagraphSkipped(id=compile_id, epoch=listener.epoch, reason=cut(reason)))

    watching.watch_cudagraph_skips(skipped)
    cache_keys.watch_keys()
    if (run / BYTECODE_FILE).exists():

        def emit(_: CodeType, made: CodeType) -> None:
            listener.emit_bytecode(dynamo.compile_id(), made)

        after_import("torch._dynamo.convert_frame", lambda _: dynamo.watch_bytecode(emit))


def _attach(listener: Listener, torch_loaded: OnImport, own_trace: str = "") -> Undo:
    """What every process records; returns what leaves torch as it was found."""
    undo: list[Undo] = [HELD.watch()]

    def when_imported(name: str, start: OnImport, without: str = "") -> None:
        def act(module: ModuleType) -> None:
            if (end := start(module)) is not None:
                undo.append(end)

        undo.append(after_import(name, act, without=without))

    def leave() -> None:
        while undo:
            undo.pop()()

    when_imported("torch._dynamo.convert_frame", lambda _: trace.watch_skips(listener.skips.emit))
    when_imported("torch._dynamo.eval_frame", lambda _: listener.late_hooks.watch())
    when_imported("torch._dynamo.eval_frame", lambda _: watching.watch_fetches(listener.fetched))
    when_imported("torch", torch_loaded, own_trace)
    when_imported("torch._dynamo.exc", lambda _: _watch_untraced(listener))
    return leave


def _compile_in_place(
    listener: Listener, inspection: Inspection, run: Path, request: dict[str, Any]
) -> Callable[[], None]:
    """As in the main process: what a program that compiles nothing calls in a process of its own, as the ranks of a
    training do, is compiled there. Returns what to call when this process compiles by itself.
    """
    if request["mode"] not in ("script", "module") or not request.get("in_place", True):
        return lambda: None
    from dynalyze.capture.compile_selection import CompileSelection
    from dynalyze.capture.compiling import compiled
    from dynalyze.capture.in_place import InPlace
    from dynalyze.capture.settings import CompileOptions

    options = CompileOptions(**request["compile"])
    modules = InPlace(
        listener.emit,
        None if has_event(run, CompileCall) else lambda target: compiled(target, options),
        None,
        CompileSelection(request.get("chosen", [])),
        lambda: listener.compile_seconds,
        partial(forget_compiles, listener, inspection),
    )

    def leave(*, at_rest: bool = True) -> None:
        if not modules.compiling_here:
            modules.leave_to_program(at_rest=at_rest)
            modules.remove()

    def compiling(frames: int) -> None:
        leave(at_rest=False)
        inspection.compiling(frames)

    listener.on_each_compile = compiling
    modules.install()
    return leave


def forget_compiles(listener: Listener, inspection: Inspection, *, compiling: bool) -> None:
    """What was compiled so far is not to count; `compiling`: a frame is just beginning to compile."""
    listener.forget(compiling=compiling)
    inspection.forget()


def lead_descendants(run: Path) -> None:
    """Arrange that processes started from here on listen as well, through an inherited environment."""
    paths = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOT_FOLDER]
    os.environ["PYTHONPATH"] = os.pathsep.join([BOOT_FOLDER, *paths])
    os.environ[RUN_VARIABLE] = str(run)
    # One that ignores PYTHONPATH (python -I) still writes torch's own log, unless the user wants that elsewhere.
    os.environ.setdefault(TRACE_VARIABLE, str(run / TRACE_FOLDER))


def _watch_untraced(listener: Listener) -> Undo:
    """Report breaks that are raised before tracing begins; returns what ends it."""

    def emit(seen: BreakSeen) -> None:
        seen.epoch = listener.epoch
        listener.emit(seen)

    return trace.watch_untraced_breaks(emit)


class InProcess:
    """What this process compiles between `start` and `stop`, in any of its threads, as events below a run folder."""

    def __init__(self, run: Path) -> None:
        self._writer = EventWriter(run, main=True)
        self._listener = Listener(self._writer)
        self._inspection = Inspection(self._listener.emit, at_once=False)
        self._listener.on_each_compile = self._inspection.compiling
        self._leave: Undo = lambda: None

    def start(self) -> None:
        """Attach everything, to torch itself once it is imported."""
        self._writer.open()
        self._leave = _attach(self._listener, self._torch_loaded)

    def stop(self) -> None:
        """Leave torch as it was found; the events are complete then."""
        self._inspection.look_again()
        if not self._listener.compiled_frames and "torch" in sys.modules:
            self._listener.emit(environment.nothing_compiled())
        self._listener.check()
        self._leave()
        self._writer.close()

    def given(self, module: object, file: str, line: int) -> None:
        """A module that had been given to torch.compile before: it is looked at as those given from here on are."""
        self._inspection.given(module, file, line, {})

    def _torch_loaded(self, torch: ModuleType) -> Undo:
        ends = self._listener.listen(), watch_compile_calls(torch, self._inspection)

        def leave() -> None:
            for end in ends:
                end()

        return leave
