"""The workloads of one model for several sizes of its inputs: as `load` makes one, with the model made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dynalyze.capture.bench import load
from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.seeding import seed
from dynalyze.capture.bench.wire import LANGUAGE_PHASES, WorkerRequest
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.shapes import Dim, resized


def load_shapes(requests: Sequence[WorkerRequest]) -> list[Workload]:
    """A workload for each request, all over the model of the first. They differ in batch, sequence and shape alone.

    Raises:
        Misuse: the target, its inputs, its sizes or the phase cannot be had as asked.
        Failed: the model cannot be built, is another one for other sizes, or its calls cannot be replayed.
    """
    first = requests[0]
    load.import_torch(first.threads)
    seed(first.seed)
    load.check_placement(first)
    return _BY_KIND[first.source["kind"]](requests)


def _objects(requests: Sequence[WorkerRequest]) -> list[Workload]:
    first = requests[0]
    module, found = load.find_target(first)
    calls = _Calls(module, found)
    model, own = calls.first(first)
    model, notes = load.made_ready(model, first)
    workloads = [load.workload_over(model, own, first)]
    workloads += [load.workload_over(model, calls.others(request, model), request) for request in requests[1:]]
    workloads[0].notes[:0] = notes
    return workloads


class _Calls:
    """The calls of an object target; a factory makes them anew for each combination of sizes that it takes."""

    def __init__(self, module: Any, found: Any) -> None:
        self._module = module
        self._found = found
        self._made: dict[tuple[tuple[str, int], ...], list[Inputs] | None] = {}

    def first(self, request: WorkerRequest) -> tuple[Any, list[Inputs] | None]:
        """The model, and the calls for this request."""
        seed(request.seed)
        # The sizes of `dims` come later: what is made here serves every size of theirs.
        model, calls = load.prepared(self._found, self._module, _for_factory(request))
        self._made[_key(request)] = calls
        return model, _resized(calls, request, model)

    def others(self, request: WorkerRequest, model: Any) -> list[Inputs] | None:
        """The calls for another request, to the same model."""
        key = _key(request)
        if key not in self._made:
            seed(request.seed)
            other, calls = load.prepared(self._found, self._module, _for_factory(request))
            _check_alike(model, other, request)
            self._made[key] = calls
        return _resized(self._made[key], request, model)


def _for_factory(request: WorkerRequest) -> WorkerRequest:
    return replace(request, dims=[], shape=dict(_key(request)))


def _key(request: WorkerRequest) -> tuple[tuple[str, int], ...]:
    """The sizes that no dim has."""
    named = {dim[0] for dim in request.dims}
    return tuple((name, size) for name, size in request.shape.items() if name not in named)


def _resized(calls: list[Inputs] | None, request: WorkerRequest, model: Any) -> list[Inputs] | None:
    if calls is None or request.phase in LANGUAGE_PHASES:
        return calls
    return resized(calls, [Dim(*each) for each in request.dims], request.shape, model)


def _check_alike(model: Any, other: Any, request: WorkerRequest) -> None:
    """One model serves all sizes; a factory that makes a different one for each cannot be judged by one of them."""
    if _outline(model) == _outline(other):
        return
    sizes = ", ".join(f"{name} {size}" for name, size in _key(request))
    raise Misuse(
        f"--shapes: {request.source['name']} makes another model for {sizes} (other parameters): one model has to "
        "serve all sizes"
    )


def _outline(model: Any) -> Any:
    """What tells one model from another, but for its values: its parameters with their shapes."""
    from dynalyze.capture.torch_private.dynamo import wrapped_by_compile

    model = wrapped_by_compile(model) or model
    named = getattr(model, "named_parameters", None)
    return [(name, tuple(each.shape)) for name, each in named()] if callable(named) else getattr(model, "__name__", "")


def _transformers(requests: Sequence[WorkerRequest]) -> list[Workload]:
    first = requests[0]
    built = load.built_model(first)
    workloads = []
    for number, request in enumerate(requests):
        if number:
            built.inputs = load.other_inputs(built, request)
        workloads.append(load.workload_of_built(built, request))
    workloads[0].notes[:0] = built.notes
    return workloads


def _bundles(requests: Sequence[WorkerRequest]) -> list[Workload]:
    from dynalyze.capture.bench.bundle import check_sizes, open_bundle, workload_of

    for request in requests:
        check_sizes(request)
    bundle = open_bundle(requests[0])
    return [workload_of(bundle, request) for request in requests]


def _programs(requests: Sequence[WorkerRequest]) -> list[Workload]:
    raise Failed("not_replayable", "a program that is run again in each process keeps the sizes that it has")


_BY_KIND: dict[str, Callable[[Sequence[WorkerRequest]], list[Workload]]] = {
    "object": _objects, "transformers": _transformers, "bundle": _bundles, "program": _programs,
}  # fmt: skip
