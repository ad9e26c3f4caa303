"""The steps of a bisection, each a command of its own: the parent puts them together (`dynalyze.bench.bisect`).

stage       the accuracy test, compiled as far as one stage; with `own_kernels`, AOTAutograd decomposes nothing; with
            `part` that part of Inductor is off, but for the `kept` that come first; with `disabled` one pass is
own_source  the places of the program that ask whether it is compiled, and so make the difference
operations  one run in which every operation is judged where it stands
minimal     a small program with the fault: the operation that was found, or a graph reduced
children    the submodules of a module
modules     the accuracy test with some submodules compiled and the rest in eager
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.accuracy import TOLERANCE, accuracy
from dynalyze.capture.bench.bisect_asking import asking_places
from dynalyze.capture.bench.bisect_graph import Probed, outputs_of, probed, tapped
from dynalyze.capture.bench.bisect_minimal import Program, Reduction, SameFault, own_memory, program_of
from dynalyze.capture.bench.bisect_operations import GradientJudge, LocalJudge, OperationFault
from dynalyze.capture.bench.bisect_scripts import (
    CannotWrite,
    operation_graph,
    operation_name,
    write_program,
    write_scripts,
)
from dynalyze.capture.bench.configure import CallableGroup, CompilePart, configured, shell_of
from dynalyze.capture.bench.failures import Failed, one_line
from dynalyze.capture.bench.output_capture import OutputCapture
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.bench.state_snapshot import StateSnapshot
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.call_context import RandomState
from dynalyze.capture.compiling import backend_of
from dynalyze.capture.torch_private import dynamo, numerics

_SEED = 1337
_BACKENDS = {"dynamo": "eager", "aot_autograd": "aot_eager", "decompositions": "aot_eager_decomp_partition"}

Answer = dict[str, Any]


class Bisector:
    """Carries out the steps for one configuration of one workload."""

    def __init__(self, workload: Workload, configuration: Configuration, device: str) -> None:
        self._workload = workload
        written = configuration.name == AS_WRITTEN
        self._configuration = replace(configuration, name="bisected") if written else configuration
        self._device = device or "cpu"
        self._faults: dict[str, OperationFault] = {}

    def take(self, step: str, command: dict[str, Any]) -> Answer:
        """The answer to one step.

        Raises:
            Failed: it could not be taken.
        """
        steps: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "stage": self._compared, "modules": self._compared,
            "own_source": self._own_source, "operations": self._operations, "children": self._children,
            "minimal": self._minimal,
        }  # fmt: skip
        if step not in steps:
            raise Failed("internal", f"unknown step of a bisection {step!r}")
        return steps[step](command)

    def _children(self, command: dict[str, Any]) -> Answer:
        model, path = self._workload.model, command["path"]
        owner = model.get_submodule(path) if isinstance(model, torch.nn.Module) else model
        function = getattr(type(owner), "forward", None) if isinstance(owner, torch.nn.Module) else owner
        code = getattr(function, "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
        return {"children": children_of(model, path), "class": type(owner).__name__, "file": file, "line": line}

    def _own_source(self, command: dict[str, Any]) -> Answer:
        dynamo_alone = self._as_far_as("dynamo")
        return {"places": asking_places(self._workload, dynamo_alone, self._device, TOLERANCE, _SEED)}

    def _compared(self, command: dict[str, Any]) -> Answer:
        """The accuracy test, with everything compiled or only the submodules of some `paths`."""
        compiled_so_far = self._as_far_as(command["stage"])
        part = replace(compiled_so_far, autocast="", region="")

        applied: list[str] = []

        def target() -> Callable[..., Any]:
            applied.clear()
            model = self._workload.model
            if "paths" not in command:
                return configured(model, compiled_so_far, self._device)
            made = compile_only(model, command["paths"], lambda one: configured(one, part, self._device))
            return configured(made, replace(compiled_so_far, compile=False), self._device)

        kept = command.get("kept", 0)
        switched: AbstractContextManager[Any] = nullcontext()
        if command.get("own_kernels"):
            switched = numerics.own_kernels()
        elif part_of_inductor := command.get("part"):
            switched = numerics.part_off(part_of_inductor, kept, applied)
        elif disabled := command.get("disabled"):
            switched = numerics.pass_disabled(disabled)
        with switched:
            answer = accuracy(self._workload, target, compiled_so_far, self._device)
        worst: Answer = next(iter(answer.get("tensors") or ()), {})
        return {
            "verdict": answer["verdict"],
            "reason": answer.get("reason", ""),
            "tensor": worst.get("name", ""),
            "kind": worst.get("kind", ""),
            "rmse": worst.get("compiled_rmse"),
            "nonfinite": worst.get("nonfinite", 0),
            "applied": len(applied),
            "last": applied[kept - 1] if 0 < kept <= len(applied) else "",
        }

    def _operations(self, command: dict[str, Any]) -> Answer:
        """One pass with every operation judged; where one is wrong, scripts that show it go to `folder`.

        Where the pass fails with the gradients looked at, it is made without.
        """
        compiled_so_far = self._as_far_as(command["stage"])
        wants_gradients = self._workload.phase == "train"
        try:
            watch = self._watch(compiled_so_far, gradients=wants_gradients)
        except Exception as error:
            if not wants_gradients:
                raise
            watch = self._watch(compiled_so_far, gradients=False)
            watch.problems.append(f"The gradients were not looked at one by one: {one_line(error)}.")
        answer: Answer = {"judged": watch.judged, "problems": watch.problems, "fault": None}
        if watch.fault is not None:
            self._faults[command["stage"]] = watch.fault
            answer["fault"] = self._described(watch.fault)
            answer["scripts"] = write_scripts(watch.fault, compiled_so_far, Path(command["folder"]))
        return answer

    def _minimal(self, command: dict[str, Any]) -> Answer:
        """A small program that is wrong by itself, made within `seconds`; scripts that show it go to `folder`."""
        began = time.monotonic()
        configuration = replace(self._as_far_as(command["stage"]), region="", regions={})
        is_wrong = SameFault(configuration, self._device)
        for program, whole in self._programs(command["stage"], configuration):
            if time.monotonic() - began > command["seconds"]:
                break
            if not is_wrong(program):
                continue
            reduction = Reduction(is_wrong, began + command["seconds"])
            small = reduction.reduced(program)
            facts = {
                "operations_before": whole.operations, "operations": small.operations,
                "elements_before": whole.elements, "elements": small.elements, "tried": reduction.tried,
            }  # fmt: skip
            return {"reduced": facts, "scripts": write_program(small, facts, configuration, Path(command["folder"]))}
        return {"reduced": None, "scripts": []}

    def _programs(self, stage: str, configuration: Configuration) -> Iterator[tuple[Program, Program]]:
        """Programs that may have the fault: the wrong operation by itself, and the graphs as they were captured; each
        with the graph that it stands in.
        """
        train = self._workload.phase == "train"
        if (fault := self._faults.get(stage)) is not None:
            with suppress(CannotWrite):
                graph, inputs = operation_graph(fault)
                alone = program_of(torch.fx.GraphModule(fault.graph, graph), inputs, train=fault.gradient)
                yield alone, program_of(fault.graph, fault.arguments, train=train)
        kept = Kept()
        with suppress(Exception):  # Where eager refuses the calls, the graph that it refuses was kept.
            self._pass_through(kept, configuration)
        for graph, inputs in kept.calls:
            program = program_of(graph, inputs, train=train)
            yield program, program

    def _pass_through(self, watch: Watch | Kept, configuration: Configuration) -> None:
        """One pass of the workload whose graphs the watch gets."""
        state = StateSnapshot(self._workload.model, _SEED, self._workload.referenced())
        dynamo.forget_compiled()
        try:
            with numerics.full_float32(), watching(watch) as backend:
                watched = replace(configuration, backend=backend, mode=None)
                target = configured(self._workload.model, watched, self._device)
                OutputCapture(self._workload, state).run(target)
                watch.finish()
        finally:
            state.leave()
            dynamo.forget_compiled()

    def _watch(self, configuration: Configuration, *, gradients: bool) -> Watch:
        dynamic = {"on": True, "off": False}.get(configuration.dynamic)
        inner = numerics.backend_function(backend_of(configuration.backend), configuration.mode, dynamic)
        watch = Watch(inner, TOLERANCE, gradients)
        self._pass_through(watch, configuration)
        return watch

    def _as_far_as(self, stage: str) -> Configuration:
        backend = _BACKENDS.get(stage)
        return self._configuration if backend is None else replace(self._configuration, backend=backend, mode=None)

    def _described(self, fault: OperationFault) -> Answer:
        model = self._workload.model
        modules = model.named_modules() if isinstance(model, torch.nn.Module) else ()
        names = {id(part): (name, type(part).__name__) for name, part in modules}
        innermost = (names[found] for found in reversed(numerics.module_ids(fault.operation)) if found in names)
        module, module_class = next(innermost, ("", ""))
        file, line = numerics.place_of(fault.operation)
        facts = fault.judged.facts
        return {
            "op": operation_name(fault.operation),
            "module": module,
            "module_class": module_class,
            "file": file,
            "line": line,
            "why": fault.judged.why,
            "dtype": facts.get("dtype", ""),
            "eager_rmse": facts.get("eager_rmse"),
            "compiled_rmse": facts.get("compiled_rmse"),
            "nonfinite": facts.get("nonfinite", 0),
            "gradient": fault.gradient,
        }


@dataclass
class Watch:
    """Compiles graphs by `compile` and judges their operations while they run, until the first fault.

    With `gradients`, those that each operation passes back are judged too, once the run is over (`finish`). `judged`
    counts the results that were judged; `problems` are lines on what could not be.
    """

    compile: Callable[..., Any]
    tolerance: float
    gradients: bool = False
    fault: OperationFault | None = None
    judged: int = 0
    problems: list[str] = field(default_factory=list)
    _waiting: list[GradientJudge] = field(default_factory=list)

    def compiled(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """A backend's answer: what runs the graph, and judges it as long as nothing was found."""
        watched = tapped(graph)
        watched_gradients = probed(watched) if self.gradients else Probed(watched)
        run = self.compile(watched.graph, [*inputs, *watched_gradients.fresh()])
        if watched.cut:
            self.problems.append(f"{watched.cut:,} operations were not looked at: their values are too large to keep.")
        if watched_gradients.reason:
            self.problems.append(f"The gradients in a graph were not looked at one by one: {watched_gradients.reason}.")

        def call(*arguments: Any) -> Any:
            forward = LocalJudge(watched, arguments, self.tolerance)
            backward = GradientJudge(watched_gradients, forward)
            outputs = run(*arguments, *backward.fresh_probes())
            if self.fault is None:
                forward.outputs = outputs
                if watched_gradients.probes:  # Kept until the backward is over: a CUDA graph writes over its outputs.
                    forward.outputs = [
                        one.clone() if isinstance(one, torch.Tensor) and one.is_cuda else one for one in outputs
                    ]
                    self._waiting.append(backward)
                self._judge(forward)
            return tuple(outputs[: len(outputs_of(graph))])

        return call

    def finish(self) -> None:
        """Judge the gradients, the last call's first."""
        while self._waiting and self.fault is None:
            self._judge(self._waiting.pop())
        self._waiting.clear()

    def _judge(self, judge: LocalJudge | GradientJudge) -> None:
        before = RandomState.now()
        try:
            self.fault = judge.first_fault()
        except Exception as error:
            self.problems.append(f"The operations of a graph could not be judged: {one_line(error)}.")
        finally:
            before.restore()
        self.judged += judge.judged


@dataclass
class Kept:
    """Runs graphs in eager, and keeps each with the inputs of its first call."""

    calls: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = field(default_factory=list)

    def compiled(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """A backend's answer."""
        known: list[Any] = []

        def call(*arguments: Any) -> Any:
            if not known:
                known.append(tuple(map(own_memory, arguments)))
                self.calls.append((graph, known[0]))
            return graph.forward(*arguments)

        return call

    def finish(self) -> None:
        """Nothing is left to be done."""


_watching: list[Watch | Kept] = []


def observing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The backend that a configuration names to be watched; see `watching`."""
    return _watching[-1].compiled(graph, inputs)


@contextmanager
def watching(watch: Watch | Kept) -> Iterator[str]:
    """The name of a backend that compiles as the watch says; with Inductor, every operation rounds as in eager."""
    _watching.append(watch)
    try:
        with numerics.comparable_code(emulate=True):
            yield f"{__name__}:observing"
    finally:
        _watching.pop()


def children_of(model: Any, path: str) -> list[str]:
    """The paths of the submodules one step below; those in a list or dict of modules count as children of its owner."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, CallableGroup):
        return []
    found: list[str] = []
    for name, child in model.get_submodule(path).named_children():
        below = f"{path}.{name}".lstrip(".")
        is_container = isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict))
        found += children_of(model, below) if is_container else [below]
    return found


def compile_only(model: torch.nn.Module, paths: Iterable[str], compile_part: CompilePart) -> torch.nn.Module:
    """A stand-in for `model` with the same parameters, of which only these submodules are compiled."""
    wanted = set(paths)
    if "" in wanted:
        whole: torch.nn.Module = compile_part(model)
        return whole
    made = shell_of(model)
    for name, child in model._modules.items():
        below = {path.partition(".")[2] for path in wanted if path.partition(".")[0] == name}
        made._modules[name] = compile_only(child, below, compile_part) if below and child is not None else child
    return made
