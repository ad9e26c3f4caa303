"""Watches this process: listens to the compiler, counts steps, and writes both to the folder of the job."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from dynalyze.capture.events import CompileEnded, CompilerEvent, CompileStarted, Event
from dynalyze.capture.hooks import after_import
from dynalyze.capture.listener import Listener
from dynalyze.capture.torch_private import trace
from dynalyze.capture.writer import number_of
from dynalyze.watch.child.events import BYTES_VARIABLE, DEFAULT_BYTES, FOLDER_VARIABLE, RankState
from dynalyze.watch.child.steps import Steps
from dynalyze.watch.child.writer import RankWriter

_watching: Watching | None = None


def begin() -> None:
    """Watch this process if the environment names the folder of a job; a second call does nothing."""
    global _watching
    folder = os.environ.get(FOLDER_VARIABLE)
    if _watching is None and folder:
        job = Path(folder)
        with contextlib.suppress(OSError):
            job.mkdir(mode=0o700, parents=True, exist_ok=True)
        _watching = Watching(job)
        _watching.attach()


def step() -> None:
    """Count a step of this process, at its end. Costs a microsecond; does nothing in a process that is not watched."""
    if _watching is not None:
        _watching.ended("step")


def begin_training(folder: Path, number: int) -> Path:
    """Watch this process of a training that has made `number` steps. Returns the folder of the job: this one, or the
    one that the environment names already.
    """
    os.environ.setdefault(FOLDER_VARIABLE, str(folder.resolve()))
    begin()
    if _watching is not None:
        _watching.steps.begin("step", number)
    return Path(os.environ[FOLDER_VARIABLE])


def stepped(number: int) -> None:
    """Count a step at its end, as the training's step `number`."""
    if _watching is not None:
        _watching.steps.number = number - 1
        _watching.ended("step")


def save() -> None:
    """Write all that this process recorded."""
    if _watching is not None:
        _watching.save()


class Watching:
    """A watched process: its listener, its steps and its state."""

    def __init__(self, job: Path) -> None:
        self._compiles = self._recompiles = 0
        most_bytes = max(1 << 20, number_of(BYTES_VARIABLE) or DEFAULT_BYTES)
        self._writer = RankWriter(job, most_bytes, self.state, lambda: self.steps.number)
        self._listener = _Listener(self._writer, self._note)
        self.steps = Steps(self._listener.emit, functools.partial(getattr, self._listener, "compile_seconds"))
        self._optimizer: Callable[[], Any] = lambda: None
        self.ended: Callable[..., None] = self._ended

    def attach(self) -> None:
        """Listen from the import of torch on."""
        _when_imported("torch", self._torch_loaded)
        _when_imported("torch._dynamo.convert_frame", lambda _: trace.watch_skips(self._listener.skips.emit))
        _when_imported("torch._dynamo.eval_frame", lambda _: self._count_calls())

    def save(self) -> None:
        self._writer.begin()
        self._writer.save()

    def state(self) -> RankState:
        """The state of the process now; the rank is torchrun's, else torch.distributed's."""
        rank, world = number_of("RANK"), number_of("WORLD_SIZE")
        distributed = sys.modules.get("torch.distributed")
        if rank is None and distributed is not None:
            with contextlib.suppress(Exception):
                if distributed.is_available() and distributed.is_initialized():
                    rank, world = distributed.get_rank(), distributed.get_world_size()
        return RankState(
            pid=os.getpid(), rank=rank, world=world, host=platform.node(),
            restart=number_of("TORCHELASTIC_RESTART_COUNT") or 0, steps=self.steps.number,
            counted_by=self.steps.counted_by, usual=self.steps.usual, compiles=self._compiles,
            recompiles=self._recompiles, compile_seconds=round(self._listener.compile_seconds, 6),
        )  # fmt: skip

    def _torch_loaded(self, torch: ModuleType) -> None:
        from torch.compiler import is_compiling

        from dynalyze.capture.torch_private.compiled_code import frame_callback_setter, leave_in_eager

        look_at = self._listener.look_at = frame_callback_setter() or self._listener.look_at
        self._listener.listen()

        def ended(counted_by: str, optimizer: Any = None, *_: Any) -> None:
            # Dynamo knows this answer while it traces, so that nothing of ours gets into a graph; between graphs it
            # would compile what is called here.
            if not is_compiling():
                before = look_at(None)
                try:
                    self._ended(counted_by, optimizer)
                finally:
                    look_at(before)

        def leave(_: ModuleType) -> None:
            for each in (ended, step, _Listener.handle, _Listener.emit):
                leave_in_eager(each.__code__)

        self.ended = ended
        _when_imported("torch._dynamo.eval_frame", leave)
        of_optimizer = functools.partial(ended, "optimizer")
        _when_imported("torch.optim.optimizer", lambda module: module.register_optimizer_step_post_hook(of_optimizer))

    def _ended(self, counted_by: str, optimizer: Any = None) -> None:
        """Of several optimizers (generator, discriminator) the first that is alive counts."""
        if optimizer is not None:
            first = self._optimizer()
            if first is None:
                self._optimizer = weakref.ref(optimizer)
            elif first is not optimizer:
                return
        if self._writer.thread is None:  # In a process that was forked too.
            self._writer.begin()
        self.steps.ended(counted_by)

    def _count_calls(self) -> None:
        """Count calls of the compiled callable that is called most, while no optimizer counts."""
        from dynalyze.capture.torch_private.compiled_calls import watch_outermost_calls

        counts: dict[int, int] = {}

        def called(which: int) -> bool:
            if self.steps.counted_by not in ("", "calls"):
                return False
            counts[which] = counts.get(which, 0) + 1
            if counts[which] > self.steps.number + 1:
                self.steps.ended("calls")
            return True

        watch_outermost_calls(called)

    def _note(self, event: Event) -> None:
        if isinstance(event, CompileStarted):
            self._compiles += 1
            self._recompiles += not event.id.endswith("/0")
        elif isinstance(event, CompileEnded):
            self._writer.begin()


def _when_imported(name: str, act: Callable[[ModuleType], object]) -> None:
    """`after_import` that ignores exceptions: they would fail the program's own import."""

    def safely(module: ModuleType) -> None:
        with contextlib.suppress(Exception):
            act(module)

    after_import(name, safely)


class _Listener(Listener):
    """A listener that calls `note` with each event of the compiler.

    Dynamo is switched off meanwhile: it looks at the eager code in which a backward pass is compiled, and we hold
    locks there.
    """

    def __init__(self, writer: RankWriter, note: Any) -> None:
        super().__init__(writer)
        self._note = note
        self.look_at: Callable[[Any], Any] = lambda _: None

    def handle(self, metadata: dict[str, Any], payload: Any) -> None:
        before = self.look_at(None)
        try:
            super().handle(metadata, payload)
        finally:
            self.look_at(before)

    def emit(self, event: Event) -> None:
        before = self.look_at(None)
        try:
            super().emit(event)
        finally:
            self.look_at(before)

    def _write(self, event: Event) -> None:
        if isinstance(event, CompilerEvent):
            self._note(event)
        super()._write(event)
