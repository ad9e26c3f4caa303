"""What building a model takes in every library: failures told by stage, silence, random weights."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.initial import fast_values
from dynalyze.capture.libraries.request import Built, CannotBuild, ModelRequest, Stage

_MISSING = re.compile(r"requires the (?:\[1m)?([\w.-]+) library|No module named '([\w.]+)'|Please install ([\w.-]+)")

# What declares operators to torch takes them back when it goes.
_KEPT: list[Any] = []


@contextlib.contextmanager
def stage(name: Stage) -> Iterator[None]:
    """Tell what failed in one line; the exception itself becomes the cause."""
    try:
        yield
    except (CannotBuild, Misuse):
        raise
    except Exception as error:
        raise CannotBuild(name, _line(error)) from error


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
def quiet(*loggers: str) -> Iterator[None]:
    """Without the advice that torch and the library print while a model is made."""
    found = [logging.getLogger(name) for name in (*loggers, "huggingface_hub")]
    levels = [logger.level for logger in found]
    for logger in found:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(found, levels, strict=True):
            logger.setLevel(level)


@contextlib.contextmanager
def random_weights(request: ModelRequest) -> Iterator[None]:
    """Modules that are made within it have random weights on the device of the request, equal for equal seeds."""
    import torch

    torch.manual_seed(request.seed)
    device = torch.device(request.device) if request.device else contextlib.nullcontext()
    values = fast_values(request.seed) if request.init == "fast" else contextlib.nullcontext()
    with device, values:
        yield


def place(model: Any, request: ModelRequest) -> None:
    """Put a model into the mode, and where they are asked for on the device and into the dtype, of the request."""
    import torch

    if request.device is not None:
        model.to(request.device)
    if request.dtype is not None:
        model.to(getattr(torch, request.dtype))
    model.train(bool(request.train))


def built(model: Any, calls: Sequence[Inputs], family: str) -> Built:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Built(model, list(calls), type(model).__name__, family, parameters)


def describe_operators(extension: Any) -> None:
    """Let torchvision be imported beside another build of torch, as PyPI's beside torch for CPUs: without its operators
    in C++ it fails at the two that it describes to torch in any case. Models need none of them.
    """
    import torch

    if not (_KEPT or extension._has_ops()):
        namespace = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            namespace.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(namespace)
