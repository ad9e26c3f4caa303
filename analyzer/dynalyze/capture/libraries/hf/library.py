"""transformers as a `Library`: the model of a request with the inputs of one call."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import replace
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import Built, ModelRequest, built, place, quiet, random_weights, stage
from dynalyze.capture.libraries.hf import names, quirks
from dynalyze.capture.libraries.hf.inputs import make_inputs
from dynalyze.capture.libraries.hf.names import listed, resolve
from dynalyze.capture.libraries.hf.parts import default_config
from dynalyze.capture.libraries.hf.shrink import small

__all__ = ["build", "listed", "make_calls", "preload", "resolve"]

# Transformers imports these with the first model of a process; the last two only with composite and with remote ones.
_SHARED = (
    "torch._dynamo", "transformers", "transformers.models", "transformers.modeling_utils",
    "transformers.modeling_layers", "transformers.masking_utils", "transformers.generation",
    "transformers.generation.utils", "transformers.models.auto.modeling_auto",
    "transformers.models.auto.configuration_auto", "transformers.dynamic_module_utils",
)  # fmt: skip


def build(request: ModelRequest) -> Built:
    """The model that `request` names, in its mode, with inputs for its modality.

    Raises Misuse where there is no such name, or the request contradicts itself, and CannotBuild where it cannot be
    had: its cause is the exception of the architecture's own code.
    """
    kind, resolved = resolve(request.name)
    if request.weights and kind == "class":
        raise Misuse(f"--weights needs a folder or an id on the hub: {resolved} is an architecture alone")
    with quiet("transformers"):
        model = _of_class(request, resolved) if kind == "class" else _of_path(request, resolved)
        with stage("model"):
            place(model, replace(request, dtype=None))  # It was made in its dtype.
        with stage("inputs"):
            calls = make_calls(model, request)
    name = type(model).__name__
    family = str(getattr(model.config, "model_type", "")) or names.family(name)
    return built(model, calls, family, is_small=not (request.full_size or request.weights))


def _of_class(request: ModelRequest, class_name: str) -> Any:
    import transformers

    with stage("model"):
        model_class = getattr(transformers, class_name)
    with stage("config"):
        config = default_config(model_class)
        if not request.full_size:
            config = small(config, model_class)
    return _random(model_class, config, request)


def _of_path(request: ModelRequest, path: str) -> Any:
    import transformers

    trust = request.trust_remote_code
    with stage("config"):
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=trust)
        model_class = _class_of(config, path, trust)
    if request.weights:
        with stage("weights"):
            return model_class.from_pretrained(
                path, config=config, use_safetensors=True, trust_remote_code=trust, **_options(request)
            )
    if not request.full_size:
        with stage("config"):
            config = small(config, model_class)
    return _random(model_class, config, request)


def _class_of(config: Any, path: str, trust: bool) -> Any:
    """The class that a checkpoint was saved from, else the bare model of its architecture."""
    import transformers

    # Where the checkpoint's own code defines a class, "modeling_x.XModel".
    references = (getattr(config, "auto_map", None) or {}).values() if trust else ()
    remote = [each for each in references if isinstance(each, str)]
    for name in config.architectures or ():
        if reference := next((each for each in remote if each.rpartition(".")[2] == name), None):
            from transformers.dynamic_module_utils import get_class_from_dynamic_module

            return get_class_from_dynamic_module(reference, path)
        if hasattr(transformers, name):
            return getattr(transformers, name)
    bare = names.base_model(str(config.model_type))
    if bare is None:
        raise ValueError(f"its config.json names no architecture of the installed transformers: {config.model_type!r}")
    return getattr(transformers, bare)


def _random(model_class: Any, config: Any, request: ModelRequest) -> Any:
    with stage("model"), random_weights(request):
        return model_class._from_config(config, **_options(request))


def _options(request: ModelRequest) -> dict[str, Any]:
    import torch

    dtype = None if request.dtype is None else getattr(torch, request.dtype)
    options = {"dtype": dtype, "attn_implementation": request.attn_implementation}
    return {name: value for name, value in options.items() if value is not None}


def preload() -> None:
    for name in _SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    quirks.load()


def make_calls(model: Any, request: ModelRequest) -> list[Inputs]:
    return [make_inputs(model, request)]
