"""Attaches the listener as soon as the program imports torch, in the target's process and in those it starts."""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from dynalyze.capture import adapter, adapter_trace
from dynalyze.capture.inspecting.telling import Inspection, watch_compile_calls
from dynalyze.capture.listener import Listener
from dynalyze.capture.skips import Skips
from dynalyze.capture.source_texts import HELD
from dynalyze.capture.wire import BYTECODE_FILE, EVENTS_FOLDER, REQUEST_FILE, RUN_VARIABLE, TRACE_FOLDER, TRACE_VARIABLE
from dynalyze.capture.writer import EventWriter

_BOOT = str(Path(__file__).resolve().parent / "boot")


def attach_to_descendant() -> None:
    """Listen in a process that the target started; does nothing outside a run of dynalyze."""
    run = os.environ.get(RUN_VARIABLE)
    if not run or not Path(run).is_dir():
        return
    listener = Listener(EventWriter(Path(run)))
    HELD.watch()
    after_import("torch", lambda torch: _listen(listener, torch, Path(run)), without=own_trace(Path(run)))
    after_import("torch._dynamo.exc", lambda _: watch_untraced(listener))
    watch_skips(listener)
    if (Path(run) / BYTECODE_FILE).exists():
        watch_bytecode(listener)


def _listen(listener: Listener, torch: ModuleType, run: Path) -> None:
    """Hear what torch compiles in this process, and see what it was given."""
    listener.listen()
    atexit.register(listener.check)
    inspection = Inspection(listener.tell, at_once=False)
    leave = _compile_in_place(listener, inspection, run)
    watch_compile_calls(torch, inspection, leave)
    if listener.on_each_compile is None:
        listener.on_each_compile = inspection.compiling


def _compile_in_place(listener: Listener, inspection: Inspection, run: Path) -> Callable[[], None]:
    """As in the main process: what a program that compiles nothing calls in a process of its own, as the ranks of a
    training do, is compiled there. Returns what to call when this process compiles by itself.
    """
    request = json.loads((run / REQUEST_FILE).read_text(encoding="utf-8"))
    if request["mode"] not in ("script", "module") or not request.get("in_place", True):
        return lambda: None
    from dynalyze.capture.chosen import Chosen
    from dynalyze.capture.compiling import Options, compiled
    from dynalyze.capture.in_place import InPlace

    options = Options(**request["compile"])
    modules = InPlace(
        listener.tell,
        None if _program_compiles(run) else lambda target: compiled(target, options),
        None,
        Chosen(request.get("chosen", [])),
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


def _program_compiles(run: Path) -> bool:
    """Whether a process of this run has called torch.compile by itself."""
    return any(
        '"event": "compile_call"' in path.read_text(encoding="utf-8", errors="replace")
        for path in (run / EVENTS_FOLDER).glob("*.jsonl")
    )


def lead_descendants(run: Path) -> None:
    """Arrange that processes started from here on listen as well, through an inherited environment."""
    paths = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != _BOOT]
    os.environ["PYTHONPATH"] = os.pathsep.join([_BOOT, *paths])
    os.environ[RUN_VARIABLE] = str(run)
    # One that ignores PYTHONPATH (python -I) still writes torch's own log, unless the user wants that elsewhere.
    os.environ.setdefault(TRACE_VARIABLE, str(run / TRACE_FOLDER))


def own_trace(run: Path) -> str:
    """The variable to hide while torch is imported where the listener is: it would record everything twice."""
    return TRACE_VARIABLE if os.environ.get(TRACE_VARIABLE) == str(run / TRACE_FOLDER) else ""


def watch_untraced(listener: Listener) -> Callable[[], None]:
    """Report breaks that are raised before tracing begins; returns what ends it."""

    def tell(message: str, frame: adapter.StackFrame, refused: bool) -> None:
        stack = adapter.stack_above()
        listener.tell(
            "break", id="", epoch=listener.epoch, attempt=0, text="", message=message, type=None, above=stack,
            inside=[frame], untraced=True, refused=refused,
        )  # fmt: skip

    return adapter_trace.watch_untraced_breaks(tell)


def watch_skips(listener: Listener) -> Skips:
    """Report functions that are left in eager without a graph break, from the moment when Dynamo is imported."""
    skips = Skips(listener)
    after_import("torch._dynamo.convert_frame", lambda _: skips.watch())
    return skips


def watch_bytecode(listener: Listener) -> None:
    """Record what Dynamo makes of each frame, from the moment when Dynamo is imported."""
    after_import("torch._dynamo.convert_frame", lambda _: adapter.watch_bytecode(listener.tell_bytecode))


def after_import(name: str, act: Callable[[ModuleType], object], *, without: str = "") -> Callable[[], None]:
    """Call `act` with the module once it has been imported; at once where it already is. Returns what calls it off.

    The environment variable `without` is not there while the module is imported.
    """
    if name in sys.modules:
        act(sys.modules[name])
        return lambda: None
    watch = _ImportWatch(name, act, without)
    sys.meta_path.insert(0, watch)
    return watch.call_off


class _ImportWatch(importlib.abc.MetaPathFinder):
    """Finds one module as the others would, and adds a call after its execution.

    It stays until the module is executed: many programs only ask first whether there is one (`find_spec("torch")`).
    """

    def __init__(self, name: str, act: Callable[[ModuleType], object], without: str) -> None:
        self._name = name
        self._act = act
        self.without = without
        self._looking = threading.local()
        self._over = False

    def call_off(self) -> None:
        self._over = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def executed(self, module: ModuleType) -> None:
        """Act, once."""
        if not self._over:
            self.call_off()
            self._act(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name or getattr(self._looking, "now", False):
            return None
        self._looking.now = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.now = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ActingLoader(spec.loader, self)
        return spec


class _ActingLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, watch: _ImportWatch) -> None:
        self._loader = loader
        self._watch = watch

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if nothing had been there, to pickle and to inspect.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        without = self._watch.without
        hidden = os.environ.pop(without, None) if without else None
        try:
            self._loader.exec_module(module)
        finally:
            if hidden is not None:
                os.environ[without] = hidden
        self._watch.executed(module)
