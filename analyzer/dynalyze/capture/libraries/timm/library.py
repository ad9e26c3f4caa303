"""timm as a `Library`: names from its registry, models from `create_model`, images from the model's default_cfg."""

from __future__ import annotations

import contextlib
import difflib
import os
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import built, place, quiet, random_weights, stage
from dynalyze.capture.libraries.request import Built, ModelRequest
from dynalyze.capture.libraries.timm.shrink import made_small

# Models that are called with any size get this one, which all of them can halve five times.
_SIZE = 96


def resolve(name: str) -> None:
    timm = _timm()
    architecture = name.partition(".")[0]  # What follows names weights: resnet50.a1_in1k.
    if not timm.is_model(architecture):
        near = difflib.get_close_matches(architecture, timm.list_models(), n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise Misuse(f"no model {name!r} in the installed timm{hint}")


def listed(pattern: str) -> list[str]:
    return list(_timm().list_models("" if pattern == "all" else pattern))


def build(request: ModelRequest) -> Built:
    """A family that cannot be made smaller has the size of its configuration. `--weights` takes what is cached here."""
    resolve(request.name)
    timm = _timm()
    with quiet("timm"):
        with stage("config"):
            config = _config(request.name)
            arguments: dict[str, Any] = {"features_only": True} if request.features else {}
            if request.size and config["fixed_input_size"]:
                arguments["img_size" if len(request.size) == 1 else "dynamic_img_size"] = request.size[0]
        with stage("weights" if request.weights else "model"), random_weights(request):
            if request.weights:
                with _no_network():
                    model = timm.create_model(request.name, pretrained=True, **arguments)
            else:
                model = _random(request, arguments)
        with stage("model"):
            place(model, request)
        with stage("inputs"):
            calls = make_calls(model, request)
    return built(
        model, calls, timm.models.model_entrypoint(request.name.partition(".")[0]).__module__.rpartition(".")[2]
    )


def _random(request: ModelRequest, arguments: dict[str, Any]) -> Any:
    timm = _timm()
    if not request.full_size:
        with contextlib.suppress(Exception), made_small(request.name.partition(".")[0], features=request.features):
            return timm.create_model(request.name, pretrained=False, **arguments)
    return timm.create_model(request.name, pretrained=False, **arguments)


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    import torch

    config = _config(request.name)
    channels, height, width = config["input_size"]
    sizes = [(size, size) for size in request.size] or [(height, width)]
    if not (request.size or request.full_size or config["fixed_input_size"]):
        least = (config.get("min_input_size") or (channels, 0, 0))[1:]
        sizes = [(max(least[0], min(height, _SIZE)), max(least[1], min(width, _SIZE)))]
    batch, dtype = request.batch or 2, next(model.parameters()).dtype
    generator = torch.Generator().manual_seed(request.seed)
    images = [torch.randn(batch, channels, *size, generator=generator) for size in sizes]
    return [Inputs((each.to(request.device or "cpu", dtype),), {}) for each in images]


def _config(name: str) -> dict[str, Any]:
    found = _timm().get_pretrained_cfg(name)
    config = {} if found is None else found.to_dict()
    return {"input_size": (3, 224, 224), "fixed_input_size": False, **config}


def preload() -> None:
    _timm()


def _timm() -> Any:
    import timm  # Seconds: when a model is asked for.

    return timm


@contextlib.contextmanager
def _no_network() -> Any:
    """A checkpoint that is not in the caches is a failure at once."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
