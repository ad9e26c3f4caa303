"""Arguments of a model that are tensors of a few whole numbers, given to it as numbers of Python: `sizes.tolist()`.

What reads them does not break the graph then: it is compiled for them, and anew for other ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

from dynalyze.capture.hooks import Patch

SETTING = "arguments_as_numbers"
"""Beside settings of Dynamo, in a change: the names of such arguments. One that is given beside the tensor has its name
before it: `sizes_numbers=sizes`.
"""
MOST = 64


def whole_numbers_among(model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """The names of the arguments of a call that are such tensors."""
    given = {**dict(zip(arguments_of(model), args, strict=False)), **kwargs}
    return [name for name, value in given.items() if _is_of_whole_numbers(value)]


def given_numbers(call: Callable[..., Any], model: Callable[..., Any], names: Collection[str]) -> Callable[..., Any]:
    """A call that gives these arguments of `model` to `call` as numbers."""
    places = arguments_of(model)
    beside = dict(name.split("=") for name in names if "=" in name)

    @functools.wraps(call)
    def called(*args: Any, **kwargs: Any) -> Any:
        known = {**dict(zip(places, args, strict=False)), **kwargs}
        kwargs |= {new: _number(known[old]) for new, old in beside.items() if known.get(old) is not None}
        named = [places[at] if at < len(places) else "" for at in range(len(args))]
        given = [_number(value) if name in names else value for name, value in zip(named, args, strict=True)]
        return call(*given, **{name: _number(value) if name in names else value for name, value in kwargs.items()})

    return called


def compile_with_numbers(torch: ModuleType, names: Collection[str]) -> None:
    """Have what each torch.compile makes, whoever calls it, called with these arguments as numbers."""
    patch = Patch(torch, "compile")

    @functools.wraps(patch.original)
    def compile(model: Any = None, **arguments: Any) -> Any:
        if model is None:
            return lambda function: compile(function, **arguments)
        made = patch.original(model, **arguments)
        if not isinstance(made, torch.nn.Module):
            return given_numbers(made, model, names)
        made.forward = given_numbers(made.forward, model, names)
        return made

    patch.put(compile)


def arguments_of(model: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a model, or a function, by their place."""
    try:
        parameters = inspect.signature(getattr(model, "forward", model)).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _is_of_whole_numbers(value: Any) -> bool:
    import torch

    whole = isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())
    return whole and value.dtype != torch.bool and 0 < value.numel() <= MOST and value.dim() <= 2


def _number(value: Any) -> Any:
    import torch

    return value.tolist() if isinstance(value, torch.Tensor) else value
