"""What building a model takes in every library: the request, failures by stage, silence, random weights.

Random weights are cheap ones. The library's own initialisation still runs in full, so norms, biases, padding rows and
whatever a model computes come out as always. Only the two tensor methods that draw random numbers, on which all of
torch.nn.init rests, take theirs from a block that was drawn once and is repeated.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dynalyze.capture import compiling
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.settings import ModelBuild, Placement

_MISSING = re.compile(r"requires the (?:\[1m)?([\w.-]+) library|No module named '([\w.]+)'|Please install ([\w.-]+)")

Stage = Literal["config", "model", "weights", "inputs"]
# A prime: rows of a weight never fall on the same part of the block, so no two of them are equal.
_BLOCK = 65521
# Where the next tensor's values begin within the block.
_STRIDE = 7919


@dataclass(frozen=True)
class ModelRequest(ModelBuild, Placement):
    """A model of a library by its name there.

    `batch` and `sequence` (tokens of text, or the closest thing the modality has) are chosen where None.
    """

    name: str
    library: str = "hf"
    batch: int | None = None
    sequence: int | None = None
    seed: int = 0


@dataclass
class Built:
    """A model in its mode, dtype and place, with the calls that are made to it."""

    model: Any
    calls: list[Inputs]
    class_name: str
    # What the library calls the architecture's family: transformers' model_type, e.g. "llama"; the module of another.
    family: str
    parameters: int
    # Whether either is smaller than --full-size has it.
    is_small: bool = False
    has_small_inputs: bool = False


class CannotBuild(Exception):
    """The architecture cannot be had; `stage` says whether its configuration, its weights or its inputs failed.

    The exception that the target's own code raised is its cause, where there is one.
    """

    def __init__(self, stage: Stage, message: str) -> None:
        super().__init__(message)
        self.stage = stage


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
    compiling.place(model, replace(request, train=bool(request.train)))


def built(model: Any, calls: Sequence[Inputs], family: str, **smaller: bool) -> Built:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Built(model, list(calls), type(model).__name__, family, parameters, **smaller)


_KEPT: list[Any] = []  # What declares operators to torch takes them back when it goes.


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


@contextlib.contextmanager
def fast_values(seed: int) -> Iterator[None]:
    """Within it, `normal_` and `uniform_` of every tensor repeat one seeded block of random numbers.

    Their results have the mean, deviation and bounds that were asked for, and are equal for equal seeds.
    """
    import torch

    normal, uniform = _Block(torch.randn, seed), _Block(torch.rand, seed + 1)
    real_normal, real_uniform = torch.Tensor.normal_, torch.Tensor.uniform_

    def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        if not _can_fill(tensor):
            return real_normal(tensor, mean, std, generator=generator)
        return normal.fill(tensor, std, mean)

    def uniform_(tensor: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None, **named: float) -> Any:
        # `from` and `to`, as torch calls them, cannot be names of parameters.
        low, high = named.get("from", low), named.get("to", high)
        if not _can_fill(tensor) or high < low:
            return real_uniform(tensor, low, high, generator=generator)
        return uniform.fill(tensor, high - low, low)

    with _replaced(torch.Tensor, "normal_", normal_), _replaced(torch.Tensor, "uniform_", uniform_):
        yield


def _can_fill(tensor: Any) -> bool:
    """Whether a copy is the same and worth it: storage in one piece, real numbers, on a device that has any."""
    return bool(tensor.is_floating_point() and tensor.is_contiguous() and tensor.device.type != "meta")


class _Block:
    """Random numbers drawn once, and where the next tensor starts reading them."""

    def __init__(self, draw: Callable[..., Any], seed: int) -> None:
        import torch

        drawn = draw(_BLOCK, generator=torch.Generator().manual_seed(seed), device="cpu")
        self._twice = torch.cat([drawn, drawn])
        self._offset = 0

    def fill(self, tensor: Any, scale: float, shift: float) -> Any:
        import torch

        with torch.no_grad():
            values = self._twice[self._offset : self._offset + _BLOCK]
            self._offset = (self._offset + _STRIDE) % _BLOCK
            values = (values[: tensor.numel()] * scale + shift).to(tensor.device, tensor.dtype)
            flat = tensor.view(-1)
            whole = tensor.numel() // _BLOCK * _BLOCK
            if whole:
                flat[:whole].view(-1, _BLOCK).copy_(values)
            flat[whole:].copy_(values[: tensor.numel() - whole])
        return tensor


@contextlib.contextmanager
def _replaced(owner: type, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """A method of a class replaced; one that it inherits is inherited again afterwards."""
    own = vars(owner).get(name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def near(name: str, known: Iterable[str]) -> str:
    """The end of a refusal: which of the known names may be meant; "" where none is like this one."""
    found = {each.lower(): each for each in known}
    meant = [found[each] for each in difflib.get_close_matches(name.lower(), found, n=3)]
    return f"; did you mean {', '.join(meant)}?" if meant else ""


def map_numbers(change: Callable[[int], int], value: Any) -> Any:
    """The same value with each whole number in it changed: itself, or in lists and dicts of any depth."""
    if isinstance(value, dict):
        return {name: map_numbers(change, each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_numbers(change, each) for each in value)
    return change(value) if isinstance(value, int) and not isinstance(value, bool) else value
