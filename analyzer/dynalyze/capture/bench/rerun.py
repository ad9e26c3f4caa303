"""Runs a program once more in a measuring process; the calls that it makes become the workload, where they are made.

Nothing compiles while the program runs, its own compiled callables run in eager: what is measured afterwards starts
from nothing, in every process alike. The program is left as if it had never been compiled.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from dynalyze.capture import program
from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.protocol import WorkerRequest
from dynalyze.capture.bench.workload import Workload, seed
from dynalyze.capture.compile_calls import left_out, surround_compile
from dynalyze.capture.compile_selection import CompileSelection
from dynalyze.capture.events import Ending
from dynalyze.capture.hooks import after_import
from dynalyze.capture.program import SOFT_STOP_SIGNAL, SoftStop, stop_softly
from dynalyze.capture.torch_private import runtime


def rerun(request: WorkerRequest) -> tuple[Workload, list[Any]]:
    """Run the program of a request whose source is {"kind": "program", "mode", "path", "module", "arguments",
    "seconds", "made", "chosen"}: `seconds` is the limit after which it is stopped, `made` the calls of the first run or
    None. Returns the workload, and all calls that the program made. Raises Failed:
    not_replayable; it failed, or made other calls than the first time; Misuse: what was asked for does not go with the
    calls of a program.
    """
    run = _Run(request)
    collected = run.collected(run.program())
    if collected is None:
        raise Failed("not_replayable", "run again, the program made no call of a module or of a compiled function")
    different = difference(request.source.get("made"), collected.made)
    if different:
        early = f", before it was stopped after {request.source['seconds']:.0f} s" if run.ending.stopped else ""
        raise Failed("not_replayable", f"run again, the program made other calls{early}: {different}")
    # Not before: torch is imported by the program alone.
    from dynalyze.capture.bench.bundle import check_sizes, workload_of
    from dynalyze.capture.bench.configure import uncompile

    check_sizes(request)
    for target in collected.bundle.targets:
        uncompile(target)
    return workload_of(collected.bundle, request), collected.made


def difference(first: list[Any] | None, now: list[Any]) -> str:
    """In what the calls of two runs differ, for people; "" where in nothing, or where the first is not known."""
    if first is None:
        return ""
    before, after = ([(name, text, calls) for name, text, calls in made] for made in (first, now))
    if before == after:
        return ""
    totals = [sum(calls for *_, calls in made) for made in (before, after)]
    if totals[0] != totals[1]:
        return f"{totals[1]:,} instead of {totals[0]:,}"
    other = next((each for each in after if each not in before), after[0] if after else None)
    return f"for example {other[0]}{other[1]}, {other[2]:,} times" if other else "none"


class _Run:
    def __init__(self, request: WorkerRequest) -> None:
        self._request = request
        self._selection = CompileSelection(list(request.source.get("chosen", [])))
        self._recorder: Any = None
        self._modules: Any = None
        self._compiled: Any = None
        self._compile_again: Callable[[], None] = lambda: None
        self.ending = Ending(exit_status=0)

    def program(self) -> dict[str, Any]:
        """Run it to its end, or to the limit; returns its global names."""
        compile_again = runtime.stay_eager()
        seed(self._request.seed)
        after_import("torch", self._torch_loaded)
        source = self._request.source
        is_module = source["mode"] == "module"
        run_program, target = (program.run_module, "module") if is_module else (program.run_script, "path")
        with stopped_after(source["seconds"]), exits_caught():
            chosen = self._selection
            self.ending, names = run_program(source[target], list(source["arguments"]), chosen.names, chosen.resolve)
            if self._recorder is not None and not self._compiled.recorder.calls:
                program.end_of(program.join_threads)
        compile_again()
        if self._recorder is None:
            raise Failed("not_replayable", "run again, the program did not import torch")
        if self.ending.exit_status:
            what = self.ending.message or f"exit status {self.ending.exit_status}"
            raise Failed("not_replayable", f"run again, the program failed: {what}")
        self._put_back()
        return names

    def collected(self, names: dict[str, Any]) -> Any:
        """The calls of the program, or those that its `example_inputs` stand for; None where there are none."""
        from dynalyze.capture.bench import bundle_writing
        from dynalyze.capture.clone import CannotClone
        from dynalyze.capture.inputs import calls_from

        found = bundle_writing.from_recordings(self._compiled, self._recorder)
        model, examples = names.get("model"), names.get("example_inputs")
        if found is not None or not callable(model) or examples is None:
            return found
        model = model() if isinstance(model, type) else model
        try:
            return bundle_writing.from_examples(model, calls_from(examples), backward=bool(self._request.train))
        except CannotClone as error:
            raise Failed("not_replayable", f"an input cannot be copied: {error}") from error

    def _torch_loaded(self, torch: ModuleType) -> None:
        from dynalyze.capture.calls import CompiledRecording, Recorder
        from dynalyze.capture.in_place import InPlace

        if self._request.threads is not None:
            torch.set_num_threads(self._request.threads)
        seed(self._request.seed)
        self._compiled, self._recorder = CompiledRecording(), Recorder()
        self._modules = InPlace(lambda _: None, None, self._recorder, self._selection)
        self._modules.install()
        # What the user chose is compiled in place of what the program compiles itself.
        self._compile_again = surround_compile(
            torch,
            lambda model, result, given, _: result if self._selection else self._compiled.watch(model, result, given),
            override=left_out if self._selection else None,
        )

    def _put_back(self) -> None:
        """Undo the recording, and what the program changed for the whole process."""
        import torch

        self._modules.remove()
        self._compiled.recorder.stop()
        self._compile_again()
        torch.set_grad_enabled(True)
        if self._request.threads is not None:
            torch.set_num_threads(self._request.threads)


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Stop the program softly after so many seconds, as a run that explains does."""
    if SOFT_STOP_SIGNAL is None:
        yield
        return
    main = threading.main_thread().ident or 0

    timer = threading.Timer(seconds, lambda: signal.pthread_kill(main, SOFT_STOP_SIGNAL))
    timer.daemon = True
    before = signal.signal(SOFT_STOP_SIGNAL, stop_softly)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(SOFT_STOP_SIGNAL, before)


@contextmanager
def exits_caught() -> Iterator[None]:
    """Let os._exit end the program and not this process: its calls are wanted. Processes that it forks do end."""
    original, own = os._exit, os.getpid()

    def leave(status: int) -> None:
        if os.getpid() == own and threading.current_thread() is threading.main_thread():
            raise SoftStop
        original(status)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = original
