"""The child of the warm-up check: compiles the target once and calls it with every shape, in one pass after the other.

Each call emits an event when it begins and when it ends, among those of the listener: what compiles in between is the
call's. The request is a `bench.protocol.WorkerRequest` with `works`, a list of `Work` for each shape,
and `passes`, a list of a name and the numbers of the shapes in their order. In the pass LOOK nothing is timed: it shows
which compiled versions run.
"""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from dynalyze.capture import environment
from dynalyze.capture.attach import attach
from dynalyze.capture.bench.failures import kind_of, one_line, reset_traceback
from dynalyze.capture.bench.protocol import WorkerRequest
from dynalyze.capture.bench.validity import Compiles
from dynalyze.capture.bench.worker import read_request
from dynalyze.capture.bench.workload import Step, Workload
from dynalyze.capture.containment import Containment
from dynalyze.capture.events import Misused, WarmupCall, WarmupCalled, WarmupEnded
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.listener import Listener
from dynalyze.capture.side_effects import Refused
from dynalyze.capture.torch_private import runtime
from dynalyze.capture.wire import LOOK, REQUEST_FILE, WARM_UP
from dynalyze.capture.writer import EventWriter

_STATUS_MISUSE = 2
_STATUS_INTERRUPTED = 130
# A CUDA graph is warmed up by the call after the one that compiles, and recorded by the next.
_CALLS_OF_CUDA_GRAPHS = 3


def main(run: Path) -> int:
    """Run the passes that the request in `run` asks for."""
    fields = json.loads((run / REQUEST_FILE).read_text(encoding="utf-8"))
    sys.argv = [str(fields["request"]["source"].get("path") or "")]
    check = WarmupCheck(run, fields)
    check.listen()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        check.run()
    except Misuse as misuse:
        check.emit(Misused(message=str(misuse)))
        return _STATUS_MISUSE
    except KeyboardInterrupt:  # Pressed for the audit; a traceback of ours would be of no use.
        return _STATUS_INTERRUPTED
    return 0


class WarmupCheck:
    """One compiled target, and the calls of every shape to it."""

    def __init__(self, run: Path, fields: dict[str, Any]) -> None:
        self._folder = run
        request: WorkerRequest = read_request(fields["request"])
        self._requests = [replace(request, **work) for work in fields["works"]]
        self._passes: list[tuple[str, list[int]]] = fields["passes"]
        self._compiles = Compiles()
        self._workloads: list[Workload] = []
        self._contained: Containment | None = None
        self._timer: Any = None
        self._repeats = 1
        self._writer = EventWriter(run, main=True)
        self._listener = Listener(self._writer)
        self.emit = self._listener.emit

    def listen(self) -> None:
        """Attach everything before the target is imported."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        self._writer.open()

        def torch_loaded(torch: ModuleType) -> None:
            self._listener.listen()
            self.emit(environment.torch_facts(torch))

        attach(self._listener, self._folder, torch_loaded)
        self._compiles.listen()

    def run(self) -> None:
        """Make all calls, and emit what the process knows at its end: why they could not be made, where they were not.
        Raises Misuse for what cannot be.
        """
        failed = ""
        try:
            steps = self._prepared()
        except Misuse:
            raise
        except (Exception, SystemExit, Refused) as error:
            failed = one_line(error)
        else:
            with contextlib.suppress(Refused):
                for stage, order in self._passes:
                    for number in order:
                        self._call(stage, number, steps[number])
        failed = (self._contained.reason() if self._contained is not None else "") or failed
        notes = self._workloads[0].notes if self._workloads else []
        self.emit(WarmupEnded(failed, runtime.recompile_limit(), runtime.cache_counts(), notes))

    def _prepared(self) -> list[list[Step]]:
        from dynalyze.capture.bench.configure import target_of
        from dynalyze.capture.bench.load import load_shapes, placement_of
        from dynalyze.capture.bench.timing import timer_for

        first = self._requests[0]
        is_library = first.source["kind"] == "library"
        if not is_library:
            self._contain()
        self._workloads = load_shapes(self._requests)
        if is_library:  # What a library reads and keeps to build a model is not the program's doing.
            self._contain()
        device, _ = placement_of(self._workloads[0])
        self._timer = timer_for(device)
        configuration = self._requests[0].configuration
        if device == "cuda" and runtime.cudagraphs_wanted(configuration.mode):
            self._repeats = _CALLS_OF_CUDA_GRAPHS
        # What is called in place of the model; compiled once, for all shapes.
        target = target_of(self._workloads[0], configuration, device)
        return [self._with_backward(workload.steps(target)) for workload in self._workloads]

    def _contain(self) -> None:
        if not self._requests[0].allow_effects:
            self._contained = Containment(self._folder)

    def _with_backward(self, steps: list[Step]) -> list[Step]:
        """In training with backward, but without an optimizer: that runs in eager whatever compiles."""
        from dynalyze.capture.bench.call_workload import TrainStep

        return [TrainStep(step, [], None) for step in steps] if self._requests[0].phase == "train" else steps

    def _call(self, stage: str, number: int, steps: list[Step]) -> None:
        """One pass over the steps of a shape; what it raises is in the event, and the next shape has its turn."""
        self.emit(WarmupCall(stage, number))
        called = WarmupCalled()
        try:
            if stage == LOOK:
                for step in steps:
                    step.prepare()
                    versions, in_eager = self._compiles.versions_run(step.run)
                    called.versions += versions
                    called.in_eager += in_eager
            else:
                repeats = self._repeats if stage == WARM_UP else 1
                called.milliseconds = sum(self._timer.passes(steps, repeats, flush=False))
        except (Exception, SystemExit) as raised:
            called.error = self._judged(raised, number)
        self.emit(called)

    def _judged(self, error: BaseException, number: int) -> str:
        """What failed, in one line: the compiled call alone, or the model in eager as well."""
        import torch

        message, out_of_memory = one_line(error), kind_of(error, "compile") == "out_of_memory"
        reset_traceback(error)
        if out_of_memory:
            return message
        workload = self._workloads[number]
        try:
            with torch.compiler.set_stance("force_eager"):
                for step in self._with_backward(workload.steps(workload.model)):
                    step.prepare()
                    step.run()
        except (Exception, SystemExit) as again:
            message = f"in eager as well: {one_line(again)}"
            reset_traceback(again)
        return message
