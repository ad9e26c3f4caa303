"""Finds the modules that a function works with: what it closes over, names, is bound to or is given."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from typing import Any

import torch

from dynalyze.capture.structure import children

_MOST_VALUES = 5000


def modules_reached(value: Any) -> list[torch.nn.Module]:
    """The outermost modules below a value, each once, in the order in which they are met."""
    found: dict[torch.nn.Module, None] = {}
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MOST_VALUES:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, torch.nn.Module):
            found[current] = None
        else:
            waiting.extend(reversed(list(_held(current))))
    return list(found)


def _held(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, type, types.ModuleType)):
        return
    if isinstance(value, types.FunctionType):
        yield from _held_by_function(value)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    else:
        yield from (item for _, item in children(value))


def _held_by_function(function: types.FunctionType) -> Iterator[Any]:
    if function.__module__.partition(".")[0] == "torch":
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # Not filled yet.
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for name in sorted(names_in(function.__code__)):
        if name in function.__globals__:
            yield function.__globals__[name]


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that a piece of code uses, nested functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_in(constant)
    return names
