"""What makes two calls alike to a compiler: a hashable signature of the inputs, and a short text for it."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from dynalyze.capture.structure import children

Signature = tuple[Any, ...]
_LONGEST_TEXT = 400
_SCALARS = (bool, int, float, complex, str, bytes)


def sign(value: Any) -> Signature:
    """The signature of a nested value.

    A tensor counts with its type, shape, strides, dtype, device and requires_grad, never with its values. The stride
    of a dimension of size 1 says nothing and is left out. Numbers, strings and None count with their value, objects
    with their class and attributes (so a cache counts with the lengths of what it holds), functions and modules by
    identity, and a value met before as that one.
    """
    return _sign(value, {})


def _sign(value: Any, seen: dict[int, int]) -> Signature:
    if value is None:
        return ("none",)
    if isinstance(value, _SCALARS):
        # By text, because 1, 1.0 and True are equal and NaN is not; strings and ints compare well as they are.
        exact = value if isinstance(value, (int, str, bytes)) else repr(value)
        return ("value", type(value).__name__, exact)
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, torch.Tensor):
        return _sign_tensor(value)
    if isinstance(value, torch.nn.Module):
        return ("same", type(value).__name__, id(value))
    held = tuple((_key(name), _sign(item, seen)) for name, item in children(value))
    if held or isinstance(value, (tuple, list, dict, set, frozenset)):
        return ("holds", type(value).__name__, held)
    return ("same", type(value).__name__, _identity(value))


def _sign_tensor(tensor: torch.Tensor) -> Signature:
    shape: Any
    strides: Any
    if type(tensor) is torch.Tensor and tensor.layout is torch.strided:
        shape = tuple(tensor.shape)
        strides = tuple(step for n, step in zip(shape, tensor.stride(), strict=True) if n != 1)
    else:  # Ragged sizes of nested tensors are symbols that cannot be hashed.
        shape, strides = str(tensor.shape), str(tensor.layout)
    return ("tensor", type(tensor).__name__, shape, strides, tensor.dtype, tensor.device, tensor.requires_grad)


def _key(name: Any) -> Any:
    return name if isinstance(name, (str, int, float, bool, bytes, type(None))) else type(name).__name__


def _identity(value: Any) -> Any:
    """Functions count by identity, dtypes, enums and other fixed values by what they are, the rest by class only."""
    if isinstance(value, (torch.dtype, torch.device, Enum)):
        return str(value)
    if callable(value):
        return id(value)
    equality: Any = type(value).__eq__
    try:
        return None if equality is object.__eq__ else hash(value)
    except TypeError:
        return None


def describe_call(arguments: Signature) -> str:
    """The signature of an (args, kwargs) pair for people, as `(Tensor[2, 16] int64, use_cache=True)`.

    Strings show only their length: they may be prompts or tokens.
    """
    _, _, ((_, args), (_, kwargs)) = arguments
    parts = [_describe(item) for _, item in args[2]]
    parts += [f"{name}={_describe(item)}" for name, item in kwargs[2]]
    text = f"({', '.join(parts)})"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _describe(node: Signature) -> str:
    tag, *rest = node
    if tag == "none":
        return "None"
    if tag == "value":
        kind, value = rest
        return f"{kind} of length {len(value)}" if kind in ("str", "bytes") else str(value)
    if tag == "tensor":
        kind, shape, _, dtype, device, requires_grad = rest
        size = list(shape) if isinstance(shape, tuple) else shape
        place = "" if device.type == "cpu" else f" on {device}"
        return f"{kind}{size} {str(dtype).removeprefix('torch.')}{place}{' with grad' if requires_grad else ''}"
    if tag == "holds":
        return _describe_holder(*rest)
    return "the same again" if tag == "again" else str(rest[0])


def _describe_holder(kind: str, held: tuple[tuple[Any, Signature], ...]) -> str:
    if kind in ("tuple", "list", "set", "frozenset"):
        inner = ", ".join(_describe(item) for _, item in held)
        return f"[{inner}]" if kind == "list" else f"({inner})"
    inner = ", ".join(f"{name}={_describe(item)}" for name, item in held)
    return f"{{{inner}}}" if kind == "dict" else f"{kind}({inner})"
