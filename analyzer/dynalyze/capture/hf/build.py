"""Builds the model of a request with the inputs of one call."""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any, Literal

from dynalyze.capture.hf import names, quirks
from dynalyze.capture.hf.initial import fast_values
from dynalyze.capture.hf.parts import default_config
from dynalyze.capture.hf.request import Built, CannotBuild, ModelRequest
from dynalyze.capture.hf.shrink import small
from dynalyze.capture.inputs import Misuse

Stage = Literal["config", "model", "weights", "inputs"]

_MISSING = re.compile(r"requires the (?:\[1m)?([\w.-]+) library|No module named '([\w.]+)'|Please install ([\w.-]+)")
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
    kind, resolved = names.resolve(request.name)
    if request.weights and kind == "class":
        raise Misuse(f"--weights needs a folder or an id on the hub: {resolved} is an architecture alone")
    with _quiet():
        model = _of_class(request, resolved) if kind == "class" else _of_path(request, resolved)
        with _stage("model"):
            if request.device is not None:
                model.to(request.device)
            model.train(bool(request.train))
        with _stage("inputs"):
            from dynalyze.capture.hf.inputs import make_inputs

            inputs = make_inputs(model, request)
    return Built(
        model=model,
        inputs=inputs,
        class_name=type(model).__name__,
        family=str(getattr(model.config, "model_type", "")) or names.family(type(model).__name__),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def _of_class(request: ModelRequest, class_name: str) -> Any:
    import transformers

    with _stage("model"):
        model_class = getattr(transformers, class_name)
    with _stage("config"):
        config = default_config(model_class)
        if not request.full_size:
            config = small(config, model_class)
    return _random(model_class, config, request)


def _of_path(request: ModelRequest, path: str) -> Any:
    import transformers

    trust = request.trust_remote_code
    with _stage("config"):
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=trust)
        model_class = _class_of(config, path, trust)
    if request.weights:
        with _stage("weights"):
            return model_class.from_pretrained(
                path, config=config, use_safetensors=True, trust_remote_code=trust, **_options(request)
            )
    if not request.full_size:
        with _stage("config"):
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
    """A model with random weights, equal for equal seeds."""
    import torch

    torch.manual_seed(request.seed)
    device = torch.device(request.device) if request.device else contextlib.nullcontext()
    values = fast_values(request.seed) if request.init == "fast" else contextlib.nullcontext()
    with _stage("model"), device, values:
        return model_class._from_config(config, **_options(request))


def _options(request: ModelRequest) -> dict[str, Any]:
    import torch

    dtype = None if request.dtype is None else getattr(torch, request.dtype)
    options = {"dtype": dtype, "attn_implementation": request.attn_implementation}
    return {name: value for name, value in options.items() if value is not None}


@contextlib.contextmanager
def _stage(stage: Stage) -> Iterator[None]:
    """Tell what failed in one line; the exception itself becomes the cause."""
    try:
        yield
    except (CannotBuild, Misuse):
        raise
    except Exception as error:
        raise CannotBuild(stage, _line(error)) from error


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) or "Failed to import" in text:
        missing = _MISSING.search(text)
        if missing:
            return f"needs the package {next(group for group in missing.groups() if group)}, which is not installed"
    if "trust_remote_code=True" in text:
        return "its code comes with the checkpoint, and runs only with --trust-remote-code"
    return f"{type(error).__name__}: {text[:300]}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice that transformers and torch print while a model is made."""
    loggers = [logging.getLogger(name) for name in ("transformers", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def preload() -> None:
    """Import what every architecture needs, so that a fork server does it once; runs no operation on a tensor."""
    for name in _SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    quirks.load()
