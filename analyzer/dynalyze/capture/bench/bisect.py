"""The steps of a bisection: the parent puts them together (`dynalyze.bench.bisect`).

One of them finds out whether the program itself answers otherwise under compile: some of its lines ask whether it is
compiled. It runs in eager with these questions answered as Dynamo answers them. Where that gives compiled's answers,
the fewest places are looked for of which the same is true.
"""

from __future__ import annotations

import contextlib
import linecache
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.accuracy import TOLERANCE, accuracy
from dynalyze.capture.bench.bisect_operations import LocalJudge, OperationFault, outputs_of, tapped
from dynalyze.capture.bench.bisect_program import (
    Program,
    faults_of,
    is_same_fault,
    own_memory,
    program_of,
    reduced,
    wrong_operation,
)
from dynalyze.capture.bench.bisect_scripts import operation_name, write_script
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.contracts import broken
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.judge import Runs, judge
from dynalyze.capture.bench.output_capture import OutputCapture, RunOutputs
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.call_context import RandomState
from dynalyze.capture.compiling import backend_of
from dynalyze.capture.torch_private import compile_questions, dynamo, numerics
from dynalyze.capture.torch_private.compile_questions import AskingLine

_SEED = 1337
_BACKENDS = {"dynamo": "eager", "aot_autograd": "aot_eager", "decompositions": "aot_eager_decomp_partition"}

Answer = dict[str, Any]
Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]
_MOST_ALONE = 20


class Bisector:
    """Takes the steps for one configuration of one workload. What fails raises Failed."""

    def __init__(self, workload: Workload, configuration: Configuration, device: str) -> None:
        self._workload = workload
        written = configuration.name == AS_WRITTEN
        self._configuration = replace(configuration, name="bisected") if written else configuration
        self._device = device or "cpu"
        self._faults: dict[str, OperationFault] = {}

    def stage(
        self, stage: str, *, own_kernels: bool = False, part: str = "", kept: int = 0, disabled: str = ""
    ) -> Answer:
        """The accuracy test, compiled as far as this stage. With `own_kernels` AOTAutograd decomposes nothing; `part`
        of Inductor is off, but for the `kept` that come first; the pass `disabled` is.
        """
        configuration = self._as_far_as(stage)
        applied: list[str] = []

        def target() -> Callable[..., Any]:
            applied.clear()
            return configured(self._workload.model, configuration, self._device)

        switched: AbstractContextManager[Any] = nullcontext()
        if own_kernels:
            switched = numerics.own_kernels()
        elif part:
            switched = numerics.part_off(part, kept, applied)
        elif disabled:
            switched = numerics.pass_disabled(disabled)
        with switched:
            answer = accuracy(self._workload, target, configuration, self._device)
        worst: Answer = next(iter(answer.get("tensors") or ()), {})
        return {
            "verdict": answer["verdict"],
            "reason": answer.get("reason", ""),
            "rmse": worst.get("compiled_rmse"),
            "nonfinite": worst.get("nonfinite", 0),
            "applied": len(applied),
            "last": applied[kept - 1] if 0 < kept <= len(applied) else "",
        }

    def own_source(self) -> Answer:
        """The places of the program that ask whether it is compiled, and so make the difference."""
        dynamo_alone = self._as_far_as("dynamo")
        return {"places": asking_places(self._workload, dynamo_alone, self._device, TOLERANCE, _SEED)}

    def operations(self, stage: str) -> Answer:
        """One run in which every operation is judged where it stands."""
        configuration = self._as_far_as(stage)
        dynamic = {"on": True, "off": False}.get(configuration.dynamic)
        inner = numerics.backend_function(backend_of(configuration.backend), configuration.mode, dynamic)
        watch = OperationsWatch(inner, TOLERANCE)
        self._pass_through(watch.compiled, configuration)
        answer: Answer = {"judged": watch.judged, "problems": watch.problems, "fault": None}
        if (fault := watch.fault) is not None:
            self._faults[stage] = fault
            facts = {name: fault.judged.facts.get(name) for name in ("dtype", "eager_rmse", "compiled_rmse")}
            facts["nonfinite"] = fault.judged.facts.get("nonfinite", 0)
            place = self._place_of(fault.operation)
            answer["fault"] = {**place, **facts, "why": fault.judged.why}
        return answer

    def script(self, stage: str, folder: str, seconds: float) -> Answer:
        """A small program with the fault, found within `seconds`; its script goes to `folder`, where there is one."""
        began = time.monotonic()
        for program, whole, configuration in self._programs(stage):
            if time.monotonic() - began > seconds:
                break
            wanted = faults_of(program, configuration, self._device)
            if wanted is None:
                continue

            def is_wrong(program: Program, like: Any = wanted, configuration: Configuration = configuration) -> bool:
                return is_same_fault(faults_of(program, configuration, self._device), like)

            small, tried = reduced(program, is_wrong, began + seconds)
            facts = {
                "operations_before": len(whole.operations), "operations": len(small.operations),
                "elements_before": whole.elements, "elements": small.elements, "tried": tried,
            }  # fmt: skip
            line = (
                f"Reduced from {facts['operations_before']:,} operations to {facts['operations']:,}, and from "
                f"{whole.elements:,} elements of\nthe inputs to {small.elements:,}; {tried:,} programs were tried."
            )
            return {
                "reduced": facts,
                "place": self._place_of(small.operations[-1]) if small.operations else None,
                "script": write_script(small, line, configuration, Path(folder)),
            }
        return {"reduced": None, "place": None, "script": False}

    def _programs(self, stage: str) -> Iterator[tuple[Program, Program, Configuration]]:
        """Programs that may have the fault: the wrong operation by itself, the graph up to it, and the graphs as they
        were captured; with the graph that each stands in, and how it is compiled.
        """
        train = self._workload.phase == "train"
        configuration = replace(self._as_far_as(stage), region="")
        if (fault := self._faults.get(stage)) is not None:
            with suppress(KeyError):
                alone, until, whole = wrong_operation(fault, train=train)
                yield alone, whole, replace(configuration, autocast=fault.autocast)
                yield until, whole, configuration
        for graph, inputs in self._captured(configuration):
            whole = program_of(graph, inputs, train=train)
            yield whole, whole, configuration

    def _captured(self, configuration: Configuration) -> list[tuple[torch.fx.GraphModule, tuple[Any, ...]]]:
        """The graphs of a pass in eager, each with the inputs of its first call."""
        found: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

        def kept(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
            def call(*arguments: Any) -> Any:
                if all(graph is not known for known, _ in found):
                    found.append((graph, tuple(map(own_memory, arguments))))
                return graph.forward(*arguments)

            return call

        with suppress(Exception):  # Where eager refuses the calls, the graph that it refuses was kept.
            self._pass_through(kept, configuration)
        return found

    def _pass_through(self, backend: Backend, configuration: Configuration) -> None:
        """One pass of the workload whose graphs the backend gets; with Inductor, every operation rounds as in eager."""
        state = StateSnapshot(self._workload.model, _SEED, self._workload.referenced())
        dynamo.forget_compiled()
        _watching.append(backend)
        try:
            with numerics.full_float32(), numerics.comparable_code(emulate=True):
                watched = replace(configuration, backend=f"{__name__}:observing", mode=None)
                OutputCapture(self._workload, state).run(configured(self._workload.model, watched, self._device))
        finally:
            _watching.pop()
            state.leave()
            dynamo.forget_compiled()

    def _as_far_as(self, stage: str) -> Configuration:
        backend = _BACKENDS.get(stage)
        return self._configuration if backend is None else replace(self._configuration, backend=backend, mode=None)

    def _place_of(self, operation: torch.fx.Node) -> Answer:
        model = self._workload.model
        modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
        names = {id(part): (name, type(part).__name__) for name, part in modules}
        innermost = (names[found] for found in reversed(numerics.module_ids(operation)) if found in names)
        module, module_class = next(innermost, ("", ""))
        file, line = numerics.place_of(operation)
        return {
            "op": operation_name(operation), "module": module, "module_class": module_class, "file": file, "line": line
        }  # fmt: skip


_watching: list[Backend] = []


def observing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The backend that a configuration names to be watched."""
    return _watching[-1](graph, inputs)


@dataclass
class OperationsWatch:
    """Compiles graphs by `compile` and judges their operations while they run, until the first fault.

    `judged` counts the results that were judged; `problems` are lines on what could not be.
    """

    compile: Callable[..., Any]
    tolerance: float
    fault: OperationFault | None = None
    judged: int = 0
    problems: list[str] = field(default_factory=list)

    def compiled(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """A backend's answer: what runs the graph, and judges it as long as nothing was found."""
        watched = tapped(graph)
        run = self.compile(watched.graph, inputs)
        if watched.cut:
            self.problems.append(f"{watched.cut:,} operations were not looked at: their values are too large to keep.")

        def call(*arguments: Any) -> Any:
            outputs = run(*arguments)
            if self.fault is None:
                self._judge(LocalJudge(watched, arguments, outputs, self.tolerance))
            return tuple(outputs[: len(outputs_of(graph))])

        return call

    def _judge(self, judge: LocalJudge) -> None:
        before = RandomState.now()
        try:
            self.fault = judge.first_fault()
        except Exception as error:
            self.problems.append(f"The operations of a graph could not be judged: {one_line(error)}.")
        finally:
            before.restore()
        self.judged += judge.judged


def asking_places(
    workload: Workload, configuration: Configuration, device: str, tolerance: float, seed: int
) -> list[dict[str, Any]]:
    """The places that give eager compiled's answers; none where they do not, or eager has them anyway."""
    state = StateSnapshot(workload.model, seed, objects=False)  # Where answers stand.
    capture = OutputCapture(workload, state)
    eager = configured(workload.model, replace(configuration, compile=False), device)
    answers = compile_questions.questions()
    asked: list[AskingLine] = []
    runs: dict[frozenset[AskingLine] | None, RunOutputs | None] = {}

    def run(places: frozenset[AskingLine] | None) -> RunOutputs | None:
        """Eager, with these places (None: all) told that they are compiled; None where it fails."""
        if places not in runs:
            first, runs[places] = not runs, None
            answering = compile_questions.answering(answers, lambda at: places is None or at in places)
            # What it asks before it fails counts.
            with numerics.nothing_compiled(), answering as more, contextlib.suppress(Exception):
                runs[places] = capture.run(eager, reference=first)
            asked.extend(place for place in more if place not in asked)
        return runs[places]

    def explains(places: Sequence[AskingLine] | None) -> bool:
        """Whether eager has compiled's answers then."""
        answered = run(None if places is None else frozenset(places))
        if answered is None or broken(answered.promises, answered.promises, compiled.promises):
            return False
        return all(each.verdict == "equal" for each in judge(Runs(answered, answered, compiled, None, tolerance)))

    try:
        with numerics.full_float32():
            run(frozenset())  # The first run says which inputs are compared after the call: eager's own.
            dynamo.forget_compiled()
            with numerics.comparable_code():
                compiled = capture.run(configured(workload.model, configuration, device))
            found: Sequence[AskingLine] = ()
            if answers and not explains(()):
                if explains(None):
                    found = fewest_places(explains, asked)
                else:  # Another place may fail, or ask for something else, where all are told.
                    found = next(([place] for place in asked[:_MOST_ALONE] if explains([place])), ())
    finally:
        state.leave()
        dynamo.forget_compiled()
    return [{**place._asdict(), "code": linecache.getline(place.file, place.line).strip()} for place in found]


def fewest_places(explains: Callable[[Sequence[AskingLine]], bool], places: Sequence[AskingLine]) -> list[AskingLine]:
    """Of places that explain it together those that do without the others: one after the other is found by halving."""
    needed: list[AskingLine] = []
    left = list(places)
    while left and not explains(needed):
        without, enough = 0, len(left)
        while enough - without > 1:
            middle = (without + enough) // 2
            if explains([*needed, *left[:middle]]):
                enough = middle
            else:
                without = middle
        needed.append(left[enough - 1])
        left = left[: enough - 1]
    return needed
