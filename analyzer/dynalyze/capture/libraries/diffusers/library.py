"""diffusers as a `Library`: its model classes from small configurations, and denoising loops made of them."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import inspect
import sys
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import built, place, quiet, random_weights, stage
from dynalyze.capture.libraries.diffusers.configs import defaults, small
from dynalyze.capture.libraries.diffusers.inputs import make_inputs
from dynalyze.capture.libraries.request import Built, ModelRequest

# Names that its package of models exports, and that are no model.
_NO_MODELS = ("AutoModel", "ModelMixin", "CacheMixin")


def resolve(name: str) -> None:
    if name not in (known := listed("all")):
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise Misuse(f"no model class {name!r} in the installed diffusers{hint}")


def listed(pattern: str) -> list[str]:
    import diffusers

    exported = diffusers._import_structure["models"]
    names = sorted(each for each in exported if each not in _NO_MODELS and not each.endswith("ParallelConfig"))
    names = [each for each in names if each[0].isupper() and each != "AttentionBackendName"]
    return names if pattern == "all" else fnmatch.filter(names, pattern)


def build(request: ModelRequest) -> Built:
    resolve(request.name)
    import diffusers

    with quiet("diffusers"):
        with stage("model"):
            model_class = getattr(diffusers, request.name)
        with stage("model"), random_weights(request):
            model = _random(model_class, request)
        with stage("model"):
            place(model, request)
        with stage("inputs"):
            calls = make_calls(model, request)
    return built(model, calls, model_class.__module__.rpartition(".")[2])


def _random(model_class: Any, request: ModelRequest) -> Any:
    config = defaults(model_class)
    for name in {"controlnets", "adapters"} & set(inspect.signature(model_class.__init__).parameters):
        part = model_class.__name__.replace("Multi", "T2I" if name == "adapters" else "")  # It holds several of them.
        config[name] = [_random(getattr(sys.modules["diffusers"], part), request) for _ in range(config.get(name, 2))]
    if not request.full_size:
        with contextlib.suppress(Exception):
            return model_class(**small(config))
    return model_class(**config)


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    import torch

    dtype = next((each.dtype for each in model.parameters()), torch.float32)

    def placed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(request.device or "cpu", dtype if value.is_floating_point() else None)
        return value

    calls = [
        make_inputs(model, batch=request.batch or 2, size=size, seed=request.seed) for size in request.size or (None,)
    ]
    return [Inputs((), torch.utils._pytree.tree_map(placed, call.kwargs)) for call in calls]


def preload() -> None:
    import diffusers.models.modeling_utils  # noqa: F401
