"""The steps of a bisection, each an order of its own: the parent puts them together (`dynalyze.bench.bisect`).

stage       the accuracy test, compiled as far as one stage
operations  one run in which every operation is judged where it stands
children    the submodules of a module
modules     the accuracy test with some submodules compiled and the rest in eager
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.accuracy import TOLERANCE, accuracy
from dynalyze.capture.bench.bisect_local import OperationFault
from dynalyze.capture.bench.bisect_modules import children_of, compile_only
from dynalyze.capture.bench.bisect_names import operation_name
from dynalyze.capture.bench.bisect_observed import Watch, watching
from dynalyze.capture.bench.bisect_scripts import write_scripts
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.failures import Failed, one_line
from dynalyze.capture.bench.kept_state import KeptState
from dynalyze.capture.bench.observed import Observer
from dynalyze.capture.bench.wire import AS_WRITTEN, Configuration
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.compiling import backend_of
from dynalyze.capture.torch_private import dynamo, numerics

_SEED = 1337
_BACKENDS = {"dynamo": "eager", "aot_autograd": "aot_eager", "decompositions": "aot_eager_decomp_partition"}

Answer = dict[str, Any]


class Bisector:
    """Carries out the steps for one configuration of one workload."""

    def __init__(self, workload: Workload, configuration: Configuration, device: str) -> None:
        self._workload = workload
        self._configuration = (
            replace(configuration, name="bisected") if configuration.name == AS_WRITTEN else configuration
        )
        self._device = device or "cpu"

    def take(self, step: str, order: dict[str, Any]) -> Answer:
        """The answer to one step.

        Raises:
            Failed: it could not be taken.
        """
        steps: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "stage": self._stage, "operations": self._operations, "children": self._children, "modules": self._modules,
        }  # fmt: skip
        if step not in steps:
            raise Failed("internal", f"unknown step of a bisection {step!r}")
        return steps[step](order)

    def _stage(self, order: dict[str, Any]) -> Answer:
        compiled_so_far = self._as_far_as(order["stage"])
        target = lambda: configured(self._workload.model, compiled_so_far, self._device)  # noqa: E731
        return _told(accuracy(self._workload, target, compiled_so_far, self._device))

    def _children(self, order: dict[str, Any]) -> Answer:
        model, path = self._workload.model, order["path"]
        owner = model.get_submodule(path) if isinstance(model, torch.nn.Module) else model
        return {"children": children_of(model, path), "class": type(owner).__name__, **_forward_of(owner)}

    def _modules(self, order: dict[str, Any]) -> Answer:
        alone = self._as_far_as(order["stage"])
        part = replace(alone, autocast="", region="")
        whole = replace(alone, compile=False)

        def target() -> Callable[..., Any]:
            made = compile_only(self._workload.model, order["paths"], lambda one: configured(one, part, self._device))
            return configured(made, whole, self._device)

        return _told(accuracy(self._workload, target, alone, self._device))

    def _operations(self, order: dict[str, Any]) -> Answer:
        """One pass with every operation judged; where one is wrong, scripts that show it go to `folder`."""
        compiled_so_far = self._as_far_as(order["stage"])
        watch = self._watched(compiled_so_far)
        answer: Answer = {"judged": watch.judged, "problems": watch.problems, "fault": None}
        if watch.fault is not None:
            answer["fault"] = self._described(watch.fault)
            answer["scripts"] = write_scripts(watch.fault, compiled_so_far, Path(order["folder"]))
        return answer

    def _watched(self, configuration: Configuration) -> Watch:
        """The run with everything looked at; without the gradients where it fails with them."""
        wants_gradients = self._workload.phase == "train"
        try:
            return self._watch(configuration, gradients=wants_gradients)
        except Exception as error:
            if not wants_gradients:
                raise
            watch = self._watch(configuration, gradients=False)
            watch.problems.append(f"The gradients were not looked at one by one: {one_line(error)}.")
            return watch

    def _watch(self, configuration: Configuration, *, gradients: bool) -> Watch:
        dynamic = {"on": True, "off": False}.get(configuration.dynamic)
        inner = numerics.backend_function(backend_of(configuration.backend), configuration.mode, dynamic)
        watch = Watch(inner, TOLERANCE, gradients)
        state = KeptState(self._workload.model, _SEED)
        dynamo.forget_compiled()
        try:
            with numerics.full_float32(), watching(watch) as backend:
                watched = replace(configuration, backend=backend, mode=None)
                target = configured(self._workload.model, watched, self._device)
                Observer(self._workload, state).run(target)
                watch.finish()
        finally:
            state.leave()
            dynamo.forget_compiled()
        return watch

    def _as_far_as(self, stage: str) -> Configuration:
        backend = _BACKENDS.get(stage)
        return self._configuration if backend is None else replace(self._configuration, backend=backend, mode=None)

    def _described(self, fault: OperationFault) -> Answer:
        module, module_class = self._module_of(fault.operation)
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

    def _module_of(self, node: torch.fx.Node) -> tuple[str, str]:
        """Path and class of the innermost module of the model that the node comes from."""
        model = self._workload.model
        if not isinstance(model, torch.nn.Module):
            return "", ""
        names = {id(part): (name, type(part).__name__) for name, part in model.named_modules()}
        return next((names[found] for found in reversed(numerics.module_ids(node)) if found in names), ("", ""))


def _told(answer: Answer) -> Answer:
    """What the parent needs of an accuracy test: the verdict, and the tensor that it comes from."""
    worst: Answer = next(iter(answer.get("tensors") or ()), {})
    return {
        "verdict": answer["verdict"],
        "reason": answer.get("reason", ""),
        "tensor": worst.get("name", ""),
        "kind": worst.get("kind", ""),
        "rmse": worst.get("compiled_rmse"),
        "nonfinite": worst.get("nonfinite", 0),
    }


def _forward_of(owner: Any) -> dict[str, Any]:
    """Where the forward of a module, or a function, begins."""
    function = getattr(type(owner), "forward", None) if isinstance(owner, torch.nn.Module) else owner
    code = getattr(function, "__code__", None)
    return {"file": code.co_filename, "line": code.co_firstlineno} if code is not None else {"file": "", "line": 0}
