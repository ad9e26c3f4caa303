"""diffusers as a `Library`: its model classes from small configurations, and denoising loops made of them."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import sys
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import Built, ModelRequest, built, near, place, quiet, random_weights, stage
from dynalyze.capture.libraries.diffusers.configs import defaults, small
from dynalyze.capture.libraries.diffusers.inputs import make_inputs

# How the names end that its package of models exports, and that are no model.
_NO_MODELS = ("AutoModel", "Mixin", "ParallelConfig", "BackendName")


def resolve(name: str) -> None:
    import diffusers

    if name in (known := listed("all")) or name in diffusers._import_structure["pipelines"]:
        return
    hint = near(name, [*known, *diffusers._import_structure["pipelines"]])
    raise Misuse(f"no model class and no pipeline {name!r} in the installed diffusers{hint}")


def listed(pattern: str) -> list[str]:
    """Model classes; pipelines too where the pattern says so, as `Flux*Pipeline`."""
    import diffusers

    exported = diffusers._import_structure["models"]
    names = {each for each in exported if each[0].isupper() and not each.endswith(_NO_MODELS)}
    if pattern.endswith("Pipeline"):
        names.update(each for each in diffusers._import_structure["pipelines"] if each.endswith("Pipeline"))
    return sorted(names if pattern == "all" else fnmatch.filter(names, pattern))


def build(request: ModelRequest) -> Built:
    resolve(request.name)
    import diffusers

    with quiet("diffusers"):
        with stage("model"):
            found = getattr(diffusers, request.name)
        is_pipeline = hasattr(found, "from_pretrained") and not hasattr(found, "forward")
        if request.lora and not is_pipeline:
            raise Misuse(f"--lora is for pipelines: {request.name} is a model")
        with stage("model"), random_weights(request):
            model = _loop(found, request) if is_pipeline else _random(found, request)
        with stage("model"):
            place(model, request)
        with stage("inputs"):
            calls = make_calls(model, request)
    return built(model, calls, request.name if is_pipeline else found.__module__.rpartition(".")[2])


def _loop(pipeline: Any, request: ModelRequest) -> Any:
    import diffusers

    from dynalyze.capture.libraries.diffusers.loop import DenoisingLoop, parts_of

    denoiser, scheduler = (getattr(diffusers, name) for name in parts_of(pipeline))
    model = _random(denoiser, request, pipeline.__name__)
    return DenoisingLoop(model, scheduler(), request.steps, adapters=2 if request.lora else 0)


def _random(model_class: Any, request: ModelRequest, pipeline: str = "") -> Any:
    config = defaults(model_class, pipeline)
    for name in {"controlnets", "adapters"} & set(inspect.signature(model_class.__init__).parameters):
        part = model_class.__name__.replace("Multi", "T2I" if name == "adapters" else "")  # It holds several of them.
        config[name] = [_random(getattr(sys.modules["diffusers"], part), request) for _ in range(config.get(name, 2))]
    if not request.full_size:
        with contextlib.suppress(Exception):
            return model_class(**small(config))
    return model_class(**config)


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    """Each size is a call; LoRA adapters are switched between two of one size where no other sizes are asked for."""
    import torch

    dtype = next((each.dtype for each in model.parameters()), torch.float32)

    def placed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(request.device or "cpu", dtype if value.is_floating_point() else None)
        return value

    def call(size: int | None) -> Inputs:
        made = make_inputs(denoiser, batch=request.batch or 2, size=size, seed=request.seed)
        return Inputs((), torch.utils._pytree.tree_map(placed, made.kwargs))

    denoiser = getattr(model, "denoiser", model)
    calls = [call(size) for size in request.size or (None,) * (2 if request.lora else 1)]
    return calls if denoiser is model else model.calls(calls)


def preload() -> None:
    import diffusers.models.modeling_utils  # noqa: F401
