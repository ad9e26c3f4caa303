"""Builds the workloads of a request: imports torch and the target, seeded, placed, and with its threads fixed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dynalyze.capture import libraries
from dynalyze.capture.bench.commands import Loaded
from dynalyze.capture.bench.failures import Failed, kind_of
from dynalyze.capture.bench.protocol import IMPORT_SECONDS_VARIABLE, WorkerRequest
from dynalyze.capture.bench.workload import Workload, seed
from dynalyze.capture.compiling import check_placement, moved, place
from dynalyze.capture.environment import torch_facts
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import CannotBuild, ModelRequest
from dynalyze.capture.settings import LANGUAGE_PHASES, Generation, Placement, settings_of
from dynalyze.capture.shapes import resized

_ANY_INPUT = "None"  # Says that the target is the model itself, whatever it is called with later.


def load(request: WorkerRequest) -> tuple[Workload, Loaded]:
    """The workload that `request` asks for, and the answer to the command `load`: what it took to get it and, of a
    program that was run again, all calls that it made. Whatever the target's own code raises passes through. Raises
    Misuse: the target, its inputs or the phase cannot be had as asked; Failed: the inputs or the recorded calls cannot
    be replayed.
    """
    if request.source["kind"] == "program":
        # Whatever the program imports it imports by itself, when it wants to: torch too.
        from dynalyze.capture.bench.rerun import rerun

        started = time.perf_counter()
        workload, made = rerun(request)
        import_seconds = None
    else:
        import_seconds, made = _imports(request), None
        started = time.perf_counter()
        (workload,) = _workloads([request], note_how_built=True)
    if request.phase == "train":
        from dynalyze.capture.bench.call_workload import TrainWorkload

        workload = TrainWorkload(workload)
    load_seconds = time.perf_counter() - started
    return workload, replace(facts_of(workload), import_seconds=import_seconds, load_seconds=load_seconds, made=made)


def facts_of(workload: Workload) -> Loaded:
    """What the records of a measurement say of a workload."""
    import torch

    from dynalyze.capture.bench.configure import CallableGroup, holds_repeated

    model = workload.model
    members = model.callables if isinstance(model, CallableGroup) else [model]
    device, dtype = placement_of(workload)
    return Loaded(
        repeated=any(isinstance(each, torch.nn.Module) and holds_repeated(each) for each in members),
        calls=len(workload.steps(model)),
        **{name: getattr(workload, name) for name in ("items", "tokens", "batch", "sequence", "phase", "notes")},
        threads=torch.get_num_threads(),
        name=type(model).__name__ if _is_module(model) else getattr(model, "__name__", type(model).__name__),
        environment=vars(torch_facts(torch)),
        device=device,
        dtype=dtype,
    )


def load_shapes(requests: Sequence[WorkerRequest]) -> list[Workload]:
    """A workload for each request, all over the model of the first. They differ in batch, sequence and shape alone.
    Raises Misuse: the target, its inputs, its sizes or the phase cannot be had as asked; Failed: the model cannot be
    built, is another one for other sizes, or its calls cannot be replayed.
    """
    _imports(requests[0])
    return _workloads(requests)


def _workloads(requests: Sequence[WorkerRequest], *, note_how_built: bool = False) -> list[Workload]:
    seed(requests[0].seed)
    check_placement(requests[0])
    match requests[0].source["kind"]:
        case "library":
            return _library(requests, note_how_built)
        case "program":
            raise Failed("not_replayable", "a program that is run again in each process keeps the sizes that it has")
        case "object":
            return _objects(requests)
    from dynalyze.capture.bench.bundle import check_sizes, open_bundle, workload_of

    for request in requests:
        check_sizes(request)
    sys.argv = [requests[0].source["file"], *requests[0].source.get("arguments", [])]
    bundle = open_bundle(requests[0])
    return [workload_of(bundle, request) for request in requests]


def _imports(request: WorkerRequest) -> float:
    """The seconds to import torch and the library of the target, here or in the process that this one was forked off.

    The number of threads is guarded by what gets compiled, so it is set before anything is built.
    """
    started = time.perf_counter()
    import torch

    if request.threads is not None:
        torch.set_num_threads(request.threads)
    if request.source["kind"] == "library":
        libraries.library(request.source["library"]).preload()
    forked = os.environ.pop(IMPORT_SECONDS_VARIABLE, None)
    return time.perf_counter() - started if forked is None else float(forked)


def _objects(requests: Sequence[WorkerRequest]) -> list[Workload]:
    import torch

    from dynalyze.capture import objects, transformers_attention
    from dynalyze.capture.bench.call_workload import workload_over
    from dynalyze.capture.bench.configure import uncompiled

    first, source = requests[0], requests[0].source
    sys.argv = [source.get("path") or source["module"], *source.get("arguments", [])]
    module = objects.import_target(source.get("path"), source.get("module"))
    calls = _Calls(module, objects.find_object(module, source["name"]))
    model, own = calls.of(first)
    model, notes = uncompiled(model)
    if source.get("attention"):
        transformers_attention.switch(model, source["attention"])
    if _is_module(model):
        trains = first.phase == "train" and first.train is None
        place(model, replace(first, train=True) if trains else first)
    workloads = []
    for request in requests:
        calls_now = own if request is first else calls.of(request, model)[1]
        if calls_now is not None:
            calls_now = [Inputs(*moved(tuple(call), request)) for call in calls_now]
        sizes = {"batch": request.batch, "sequence": request.sequence, "seed": request.seed}
        workloads.append(workload_over(model, calls_now, request.phase, **sizes, **settings_of(request, Generation)))
    random_parts = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._BatchNorm)
    parts = model.modules() if first.phase != "train" and isinstance(model, torch.nn.Module) else ()
    if any(part.training and isinstance(part, random_parts) for part in parts):
        notes.append(
            "The model is in training mode: its dropout or batch statistics are active. --eval turns them off."
        )
    workloads[0].notes[:0] = notes
    return workloads


@dataclass
class _Calls:
    """The calls of an object target; a factory makes them anew for each combination of sizes that it takes."""

    module: Any
    found: Any
    _made: dict[tuple[tuple[str, int], ...], list[Inputs] | None] = field(default_factory=dict)

    def of(self, request: WorkerRequest, model: Any = None) -> tuple[Any, list[Inputs] | None]:
        """The model, and the calls for a request; a phase of a language model makes its own and may have none.

        `model` is that of the first request: one model has to serve all sizes. The sizes of `dims` come last: what a
        factory makes serves every size of theirs.
        """
        named = {dim.name for dim in request.dims}
        key = tuple((name, size) for name, size in request.shape if name not in named)
        if key not in self._made:
            made, self._made[key] = self._prepared(request, dict(key))
            if model is not None and _outline(model) != _outline(made):
                sizes = ", ".join(f"{name} {size}" for name, size in key)
                raise Misuse(
                    f"--shapes: {request.source['name']} makes another model for {sizes} (other parameters): one model "
                    "has to serve all sizes"
                )
            model = made if model is None else model
        calls = self._made[key]
        if calls is None or request.phase in LANGUAGE_PHASES:
            return model, calls
        return model, resized(calls, request.dims, dict(request.shape), model)

    def _prepared(self, request: WorkerRequest, sizes: dict[str, int]) -> tuple[Any, list[Inputs] | None]:
        from dynalyze.capture import objects

        name, inputs = request.source["name"], list(request.source.get("inputs", []))
        seed(request.seed)
        try:
            return objects.prepare(self.found, name, self.module, inputs, sizes)
        except Misuse:
            if request.phase not in LANGUAGE_PHASES or inputs:
                raise
        seed(request.seed)
        return objects.prepare(self.found, name, self.module, [_ANY_INPUT])[0], None


def _outline(model: Any) -> Any:
    """The names and shapes of a model's parameters; of a function its name."""
    from dynalyze.capture.torch_private.dynamo import wrapped_by_compile

    model = wrapped_by_compile(model) or model
    named = getattr(model, "named_parameters", None)
    return [(name, tuple(each.shape)) for name, each in named()] if callable(named) else getattr(model, "__name__", "")


def _library(requests: Sequence[WorkerRequest], note_how_built: bool) -> list[Workload]:
    """Workloads over one model of a library; its inputs get the sizes that `dims` say. Raises Misuse: there is no
    such name; Failed: the model, or inputs of another request's sizes for it, cannot be had.
    """
    from dynalyze.capture import library_target

    first, workloads = requests[0], []
    library = libraries.library(first.source["library"])
    with _refusals_in_one_line("the model could not be built"):
        built = library.build(_model_request(first))
    for number, request in enumerate(requests):
        if number:
            with _refusals_in_one_line("its inputs could not be made"):
                built.calls = library.make_calls(built.model, _model_request(request))
        built.calls = resized(built.calls, request.dims, dict(request.shape), built.model)
        seed(request.seed)
        workloads.append(
            library_target.workload_of(
                built, request.phase, batch=request.batch, seed=request.seed, **settings_of(request, Generation)
            )
        )
    if note_how_built:
        how = library_target.how_built(built, first.source["weights"])
        workloads[0].notes.insert(0, f"{library_target.description(built)} {how}")
    return workloads


@contextmanager
def _refusals_in_one_line(what: str) -> Iterator[None]:
    """Raise Failed with one line for what a library refuses."""
    from dynalyze.capture import library_target

    try:
        yield
    except CannotBuild as error:
        message = library_target.failure_of(error, "model").message
        raise Failed(kind_of(error, "load"), f"{what}: {message}") from error


def _model_request(request: WorkerRequest) -> ModelRequest:
    """How a model of a library is built, where it is put, and how large its inputs are."""
    return ModelRequest(
        **{name: value for name, value in request.source.items() if name != "kind"},
        **settings_of(replace(request, train=request.phase == "train"), Placement),
        batch=request.batch, sequence=request.sequence, seed=request.seed,
    )  # fmt: skip


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


def placement_of(workload: Workload) -> tuple[str, str]:
    """Device and dtype of the first floating tensor of the work; empty texts for what has none."""
    for tensor in workload.tensors():
        if tensor.is_floating_point() or tensor.is_complex():
            return tensor.device.type, str(tensor.dtype).removeprefix("torch.")
    return "", ""
