"""Regional compilation: repeated blocks are compiled one by one, so that they share one compile.

A list of repeated blocks is an nn.ModuleList whose items are of one class. Modules that hold such a list somewhere
below stay in eager themselves; all others are compiled whole. Accelerate's compile_regions draws the same lines.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

CompilePart = Callable[[torch.nn.Module], Any]


def compile_regions(model: torch.nn.Module, compile_part: CompilePart) -> Any:
    """A stand-in for `model` that shares all of its parameters and buffers; `model` itself does not change."""
    if is_repeated(model):
        return torch.nn.ModuleList([compile_part(block) for block in model.children()])
    if not holds_repeated(model):
        return compile_part(model)
    made = shell_of(model)
    for name, child in model._modules.items():
        made._modules[name] = None if child is None else compile_regions(child, compile_part)
    return made


def is_repeated(module: torch.nn.Module) -> bool:
    """Whether it is a list of blocks of one class."""
    return isinstance(module, torch.nn.ModuleList) and len({type(item) for item in module}) == 1


def holds_repeated(module: torch.nn.Module) -> bool:
    """Whether a list of repeated blocks stands anywhere in it."""
    return any(is_repeated(part) for part in module.modules())


def shell_of(module: torch.nn.Module) -> torch.nn.Module:
    """A module of the same class and attributes, with room for children of its own."""
    made: torch.nn.Module = object.__new__(type(module))
    made.__dict__.update(module.__dict__)
    for name, value in module.__dict__.items():
        # A forward that a library put on the instance must call the children of this one.
        if isinstance(value, types.MethodType) and value.__self__ is module:
            made.__dict__[name] = types.MethodType(value.__func__, made)
    made.__dict__["_modules"] = {}
    return made
