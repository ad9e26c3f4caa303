"""timm as a `Library`: names from its registry, models from `create_model`, images from the model's default_cfg.

Small models have fewer blocks, of the same kinds: what their constructors are given is cut on the way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import (
    Built,
    ModelRequest,
    built,
    map_numbers,
    near,
    place,
    quiet,
    random_weights,
    stage,
)

# Models that are called with any size get this one, which all of them can halve five times.
_SIZE = 96
# Arguments of constructors, and fields of configurations, that hold numbers of blocks: of all, or of each stage.
_DEPTHS = ("depth", "depths", "layers", "num_blocks", "stages", "block_config", "serial_depths", "k_sec", "d")
# Lists with an entry for each block, in a list for each stage; and configurations that hold others.
_BLOCKS = "block_args"
_HOLDERS = ("blocks", "stages", "cfg")
# A block of each kind where kinds alternate; features are taken after several blocks.
_MOST, _MOST_WITH_FEATURES = 2, 4
# The widths of stages follow from the number of all blocks; which blocks see the whole image is told by their numbers.
_WHOLE = ("RegNetCfg", "HieraDet")


def resolve(name: str) -> None:
    timm = _timm()
    architecture = name.partition(".")[0]  # What follows names weights: resnet50.a1_in1k.
    if not timm.is_model(architecture):
        raise Misuse(f"no model {name!r} in the installed timm{near(architecture, timm.list_models())}")


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
                    model, is_small = timm.create_model(request.name, pretrained=True, **arguments), False
            else:
                model, is_small = _random(request, arguments)
        with stage("model"):
            place(model, request)
        with stage("inputs"):
            calls = make_calls(model, request)
    family = timm.models.model_entrypoint(request.name.partition(".")[0]).__module__.rpartition(".")[2]
    small_images = not request.size and calls[0].args[0].shape[1:] != tuple(config["input_size"])
    return built(model, calls, family, is_small=is_small, has_small_inputs=small_images)


def _random(request: ModelRequest, arguments: dict[str, Any]) -> tuple[Any, bool]:
    """The model, and whether it is smaller than its configuration."""
    timm = _timm()
    if not request.full_size:
        small = made_small(request.name.partition(".")[0], features=request.features)
        with contextlib.suppress(Exception), small as cut:
            return timm.create_model(request.name, pretrained=False, **arguments), bool(cut)
    return timm.create_model(request.name, pretrained=False, **arguments), False


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
    """Fail at once for a checkpoint that is not cached."""
    from huggingface_hub import constants

    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def made_small(architecture: str, *, features: bool) -> Iterator[set[str]]:
    """Within it, timm makes the architecture with few blocks in a stage; gives the arguments that were cut."""
    from timm.models import model_entrypoint

    module: Any = sys.modules[model_entrypoint(architecture).__module__]
    build = module.build_model_with_cfg
    most = _MOST_WITH_FEATURES if features else _MOST
    at_most = partial(map_numbers, partial(min, most))
    cut: set[str] = set()

    def build_small(model_class: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if getattr(model_class, "__name__", "") in _WHOLE:
            return build(model_class, *args, **kwargs)
        known = {name: each.default for name, each in inspect.signature(model_class).parameters.items()}
        depth = kwargs.get("depth", known.get("depth"))
        less: dict[str, Any] = {}
        for name, value in kwargs.items():
            if isinstance(depth, int) and isinstance(value, (list, tuple)) and len(value) == depth:
                less[name] = value[:most]  # One for each block.
        for name in (*_DEPTHS, _BLOCKS):
            value = {**known, **kwargs, **less}.get(name, inspect.Parameter.empty)
            if value is not inspect.Parameter.empty and value is not None:
                less[name] = at_most(value) if name in _DEPTHS else [stage[:most] for stage in value]
        if kwargs.get("model_cfg") is not None:
            less["model_cfg"] = _smaller(kwargs["model_cfg"], most)
        cut.update(name for name, value in less.items() if value != kwargs.get(name, known.get(name)))
        return build(model_class, *args, **{**kwargs, **less})

    module.build_model_with_cfg = build_small
    try:
        yield cut
    finally:
        module.build_model_with_cfg = build


def _smaller(config: Any, most: int) -> Any:
    """A configuration, and those that it holds, with smaller numbers of blocks."""
    if isinstance(config, (list, tuple)):
        return type(config)(_smaller(each, most) for each in config)
    if not dataclasses.is_dataclass(config) or type(config).__name__ in _WHOLE:
        return config
    changes: dict[str, Any] = {}
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if each.name in _HOLDERS and not isinstance(value, int):
            changes[each.name] = _smaller(value, most)
        elif each.name in _DEPTHS:
            changes[each.name] = map_numbers(partial(min, most), value)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]
