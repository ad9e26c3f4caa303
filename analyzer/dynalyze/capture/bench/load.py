"""Builds the workload of a request: imports torch and the target, seeded, placed, and with its threads fixed."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import Any

from dynalyze.capture.bench.wire import WorkerRequest
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.environment import torch_facts
from dynalyze.capture.inputs import Inputs, Misuse

_LANGUAGE = ("prefill", "decode", "generate")
_ANY_INPUT = "None"  # Says that the target is the model itself, whatever it is called with later.


@dataclass
class Loaded:
    """A workload with what it took to get it."""

    workload: Workload
    import_seconds: float
    load_seconds: float

    def facts(self) -> dict[str, Any]:
        """What the parent is told of it."""
        import torch

        workload = self.workload
        return {
            "import_seconds": self.import_seconds,
            "load_seconds": self.load_seconds,
            "calls": len(workload.steps(workload.model)),
            "items": workload.items,
            "tokens": workload.tokens,
            "batch": workload.batch,
            "sequence": workload.sequence,
            "phase": workload.phase,
            "threads": torch.get_num_threads(),
            "name": _name(workload.model),
            "notes": workload.notes,
            "environment": torch_facts(torch),
            **_placement(workload),
        }


def load(request: WorkerRequest) -> Loaded:
    """The workload that `request` asks for; whatever the target's own code raises passes through.

    Raises:
        Misuse: the target, its inputs or the phase cannot be had as asked.
        Failed: the inputs or the recorded calls cannot be replayed.
    """
    import_seconds = _import_torch(request.threads)
    started = time.perf_counter()
    seed(request.seed)
    _check_placement(request)
    workload = _bundle(request) if request.source["kind"] == "bundle" else _object(request)
    if request.phase == "train":
        from dynalyze.capture.bench.training import TrainWorkload

        workload = TrainWorkload(workload)
    return Loaded(workload, import_seconds, time.perf_counter() - started)


def seed(number: int) -> None:
    """Set every random generator in use: processes that build apart get the same weights."""
    import torch

    random.seed(number)
    torch.manual_seed(number)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(number)


def _import_torch(threads: int | None) -> float:
    """The number of threads is guarded by what gets compiled, so it is set before anything else."""
    started = time.perf_counter()
    import torch

    seconds = time.perf_counter() - started
    if threads is not None:
        torch.set_num_threads(threads)
    return seconds


def _object(request: WorkerRequest) -> Workload:
    from dynalyze.capture import objects
    from dynalyze.capture.bench.configure import uncompiled
    from dynalyze.capture.compiling import place

    source = request.source
    sys.argv = [source.get("path") or source["module"], *source.get("arguments", [])]
    module = objects.import_target(source.get("path"), source.get("module"))
    found = objects.find_object(module, source["name"])
    seed(request.seed)
    model, calls = _prepared(found, module, request)
    model, notes = uncompiled(model)
    if _is_module(model):
        place(model, _options(request))
    workload = _workload(model, calls, request)
    workload.notes[:0] = [*notes, *_notes_on(model, request)]
    return workload


def _prepared(found: Any, module: Any, request: WorkerRequest) -> tuple[Any, list[Inputs] | None]:
    """The callable and its calls; a phase of a language model makes its own calls and needs none."""
    from dynalyze.capture import objects

    source = request.source
    inputs = list(source.get("inputs", []))
    try:
        return objects.prepare(found, source["name"], module, inputs)
    except Misuse:
        if request.phase not in _LANGUAGE or inputs:
            raise
    seed(request.seed)
    return objects.prepare(found, source["name"], module, [_ANY_INPUT])[0], None


def _workload(model: Any, calls: list[Inputs] | None, request: WorkerRequest) -> Workload:
    from dynalyze.capture.compiling import moved

    calls = None if calls is None else [Inputs(*moved(tuple(call), _options(request))) for call in calls]
    if request.phase in _LANGUAGE:
        from dynalyze.capture.bench.language import language_workload

        return language_workload(
            model, request.phase, calls=calls, batch=request.batch, sequence=request.sequence,
            new_tokens=request.new_tokens, static_cache=request.static_cache, seed=request.seed,
        )  # fmt: skip
    from dynalyze.capture.bench.calls import CallsWorkload

    return CallsWorkload(model, calls or [], phase=request.phase, grad=request.phase == "train")


def _bundle(request: WorkerRequest) -> Workload:
    from dynalyze.capture.bench.bundle import read_bundle

    sys.argv = [request.source["file"], *request.source.get("arguments", [])]
    return read_bundle(request)


def _options(request: WorkerRequest) -> Any:
    from dynalyze.capture.compiling import Options

    train = True if request.phase == "train" and request.train is None else request.train
    return Options(device=request.device, dtype=request.dtype, train=train)


def _check_placement(request: WorkerRequest) -> None:
    import torch

    if request.dtype is not None and not isinstance(getattr(torch, request.dtype, None), torch.dtype):
        raise Misuse(f"unknown --dtype {request.dtype!r}; for example float32, bfloat16, float16")
    if request.device is not None:
        try:
            torch.empty(0, device=request.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise Misuse(f"--device {request.device} cannot be used here: {reason}") from error


def _notes_on(model: Any, request: WorkerRequest) -> list[str]:
    import torch

    if request.phase == "train" or not _is_module(model):
        return []
    random_parts = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    if any(part.training and isinstance(part, random_parts) for part in model.modules()):
        return ["The model is in training mode: its dropout or batch statistics are active. --eval turns them off."]
    return []


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def _placement(workload: Workload) -> dict[str, str]:
    """Device and dtype of the first floating tensor of the work; empty texts for what has none."""
    for tensor in workload.tensors():
        if tensor.is_floating_point() or tensor.is_complex():
            return {"device": tensor.device.type, "dtype": str(tensor.dtype).removeprefix("torch.")}
    return {"device": "", "dtype": ""}


def _name(model: Any) -> str:
    return type(model).__name__ if _is_module(model) else getattr(model, "__name__", type(model).__name__)
