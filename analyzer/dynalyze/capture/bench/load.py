"""Builds the workload of a request: imports torch and the target, seeded, placed, and with its threads fixed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dynalyze.capture.bench.failures import Failed, kind_of
from dynalyze.capture.bench.seeding import seed
from dynalyze.capture.bench.wire import IMPORT_SECONDS_VARIABLE, LANGUAGE_PHASES, WorkerRequest
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.environment import torch_facts
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.shapes import Dim, resized

_ANY_INPUT = "None"  # Says that the target is the model itself, whatever it is called with later.


@dataclass
class Loaded:
    """A workload with what it took to get it; of a program that was run again, all calls that it made."""

    workload: Workload
    import_seconds: float | None
    load_seconds: float
    made: list[Any] | None = None

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
            "made": self.made,
            "environment": torch_facts(torch),
            **_placement(workload),
        }


def load(request: WorkerRequest) -> Loaded:
    """The workload that `request` asks for; whatever the target's own code raises passes through.

    Raises:
        Misuse: the target, its inputs or the phase cannot be had as asked.
        Failed: the inputs or the recorded calls cannot be replayed.
    """
    if request.source["kind"] == "program":
        return _program(request)
    import_seconds = import_torch(request.threads)
    started = time.perf_counter()
    seed(request.seed)
    check_placement(request)
    workload = _BY_KIND[request.source["kind"]](request)
    return Loaded(_trained(workload, request), import_seconds, time.perf_counter() - started)


def _program(request: WorkerRequest) -> Loaded:
    """Whatever the program imports it imports by itself, when it wants to: torch too."""
    from dynalyze.capture.bench.rerun import rerun

    started = time.perf_counter()
    found = rerun(request)
    return Loaded(_trained(found.workload, request), None, time.perf_counter() - started, found.made)


def _trained(workload: Workload, request: WorkerRequest) -> Workload:
    """The workload, or training steps around it where these are asked for."""
    if request.phase != "train":
        return workload
    from dynalyze.capture.bench.training import TrainWorkload

    return TrainWorkload(workload)


def import_torch(threads: int | None) -> float:
    """The number of threads is guarded by what gets compiled, so it is set before anything else."""
    started = time.perf_counter()
    import torch

    forked = os.environ.pop(IMPORT_SECONDS_VARIABLE, None)
    seconds = time.perf_counter() - started if forked is None else float(forked)
    if threads is not None:
        torch.set_num_threads(threads)
    return seconds


def _object(request: WorkerRequest) -> Workload:
    module, found = find_target(request)
    seed(request.seed)
    model, calls = prepared(found, module, request)
    model, notes = made_ready(model, request)
    workload = workload_over(model, calls, request)
    workload.notes[:0] = notes
    return workload


def find_target(request: WorkerRequest) -> tuple[Any, Any]:
    """The module that holds an object target, imported, and the object."""
    from dynalyze.capture import objects

    source = request.source
    sys.argv = [source.get("path") or source["module"], *source.get("arguments", [])]
    module = objects.import_target(source.get("path"), source.get("module"))
    return module, objects.find_object(module, source["name"])


def made_ready(model: Any, request: WorkerRequest) -> tuple[Any, list[str]]:
    """The model without its own compiles, in its place and mode, and notes on it."""
    from dynalyze.capture import transformers_attention
    from dynalyze.capture.bench.configure import uncompiled
    from dynalyze.capture.compiling import place

    model, notes = uncompiled(model)
    if request.source.get("attention"):
        transformers_attention.switch(model, request.source["attention"])
    if _is_module(model):
        place(model, _options(request))
    return model, [*notes, *_notes_on(model, request)]


def _transformers(request: WorkerRequest) -> Workload:
    built = built_model(request)
    workload = workload_of_built(built, request)
    workload.notes[:0] = notes_on_built(built, request)
    return workload


def built_model(request: WorkerRequest) -> Any:
    """The model of an `hf:` target, with inputs of the request's batch and sequence.

    Raises:
        Misuse: there is no such name.
        Failed: the architecture cannot be had.
    """
    from dynalyze.capture import transformers_target

    with _told("the model could not be built"):
        return transformers_target.built_model(request.source["name"], _building(request), **_sized(request))


def other_inputs(built: Any, request: WorkerRequest) -> Inputs:
    """Inputs of another request's batch and sequence for a model that was built.

    Raises:
        Failed: they cannot be made.
    """
    from dynalyze.capture.hf.inputs import make_inputs
    from dynalyze.capture.hf.request import ModelRequest

    with _told("its inputs could not be made"):
        return make_inputs(built.model, ModelRequest(request.source["name"], **_building(request), **_sized(request)))


def workload_of_built(built: Any, request: WorkerRequest) -> Workload:
    """What the request does with a model of transformers; its inputs get the sizes that `dims` say."""
    from dynalyze.capture import transformers_target

    (built.inputs,) = resized([built.inputs], _dims(request), request.shape, built.model)
    seed(request.seed)
    return transformers_target.workload_of(
        built, request.phase, batch=request.batch, new_tokens=request.new_tokens, static_cache=request.static_cache,
        seed=request.seed,
    )  # fmt: skip


def notes_on_built(built: Any, request: WorkerRequest) -> list[str]:
    """What a reader has to know about a model of transformers."""
    from dynalyze.capture import transformers_target

    building = _building(request)
    how = transformers_target.how_built(building["full_size"], building["weights"])
    return [f"{transformers_target.description(built)} {how}", *built.notes]


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Tell in one line what transformers refuses."""
    from dynalyze.capture import transformers_target
    from dynalyze.capture.hf.request import CannotBuild

    try:
        yield
    except CannotBuild as error:
        message = transformers_target.failure_of(error, "model")["message"]
        raise Failed(kind_of(error, "load"), f"{what}: {message}") from error


def _sized(request: WorkerRequest) -> dict[str, Any]:
    """Where a model of transformers is put, and how large its inputs are."""
    return {
        "dtype": request.dtype, "device": request.device, "batch": request.batch, "sequence": request.sequence,
        "train": request.phase == "train", "seed": request.seed,
    }  # fmt: skip


def _building(request: WorkerRequest) -> dict[str, Any]:
    return {name: value for name, value in request.source.items() if name not in ("kind", "name")}


def prepared(found: Any, module: Any, request: WorkerRequest) -> tuple[Any, list[Inputs] | None]:
    """The callable and its calls; a phase of a language model makes its own calls and needs none."""
    from dynalyze.capture import objects

    source = request.source
    inputs = list(source.get("inputs", []))
    dims = _dims(request)
    sizes = {name: size for name, size in request.shape.items() if all(name != dim.name for dim in dims)}
    try:
        model, calls = objects.prepare(found, source["name"], module, inputs, sizes)
        return model, resized(calls, dims, request.shape, model)
    except Misuse:
        if request.phase not in LANGUAGE_PHASES or inputs:
            raise
    seed(request.seed)
    return objects.prepare(found, source["name"], module, [_ANY_INPUT])[0], None


def workload_over(model: Any, calls: list[Inputs] | None, request: WorkerRequest) -> Workload:
    """The phase of the request over these calls, moved and cast as it asks."""
    from dynalyze.capture.compiling import moved

    calls = None if calls is None else [Inputs(*moved(tuple(call), _options(request))) for call in calls]
    if request.phase in LANGUAGE_PHASES:
        from dynalyze.capture.bench.language import language_workload

        return language_workload(
            model, request.phase, calls=calls, batch=request.batch, sequence=request.sequence,
            new_tokens=request.new_tokens, static_cache=request.static_cache, seed=request.seed,
        )  # fmt: skip
    from dynalyze.capture.bench.calls import CallsWorkload

    return CallsWorkload(model, calls or [], phase=request.phase, grad=request.phase == "train")


def _dims(request: WorkerRequest) -> list[Dim]:
    return [Dim(*each) for each in request.dims]


def _bundle(request: WorkerRequest) -> Workload:
    from dynalyze.capture.bench.bundle import read_bundle

    sys.argv = [request.source["file"], *request.source.get("arguments", [])]
    return read_bundle(request)


_BY_KIND: dict[str, Callable[[WorkerRequest], Workload]] = {
    "bundle": _bundle, "object": _object, "transformers": _transformers,
}  # fmt: skip


def _options(request: WorkerRequest) -> Any:
    from dynalyze.capture.compiling import Options

    train = True if request.phase == "train" and request.train is None else request.train
    return Options(device=request.device, dtype=request.dtype, train=train)


def check_placement(request: WorkerRequest) -> None:
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


def device_of(workload: Workload) -> str:
    """The type of device that the work is done on, "" where no tensor tells it."""
    return _placement(workload)["device"]


def _placement(workload: Workload) -> dict[str, str]:
    """Device and dtype of the first floating tensor of the work; empty texts for what has none."""
    for tensor in workload.tensors():
        if tensor.is_floating_point() or tensor.is_complex():
            return {"device": tensor.device.type, "dtype": str(tensor.dtype).removeprefix("torch.")}
    return {"device": "", "dtype": ""}


def _name(model: Any) -> str:
    return type(model).__name__ if _is_module(model) else getattr(model, "__name__", type(model).__name__)
