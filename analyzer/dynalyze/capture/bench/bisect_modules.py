"""Compiles chosen submodules of a model alone, while everything around them runs in eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynalyze.capture.bench.parts import Parts
from dynalyze.capture.bench.regions import shell_of

_HOLDERS = (torch.nn.ModuleList, torch.nn.ModuleDict)

CompilePart = Callable[[torch.nn.Module], Any]


def children_of(model: Any, path: str) -> list[str]:
    """The paths of the submodules one step below; those in a list or dict of modules count as children of its owner."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, Parts):
        return []
    found: list[str] = []
    for name, child in model.get_submodule(path).named_children():
        below = f"{path}.{name}".lstrip(".")
        found += children_of(model, below) if isinstance(child, _HOLDERS) else [below]
    return found


def compile_only(model: torch.nn.Module, paths: Iterable[str], compile_part: CompilePart) -> torch.nn.Module:
    """A stand-in for `model` with the same parameters, of which only these submodules are compiled."""
    wanted = set(paths)
    if "" in wanted:
        return _whole(compile_part(model))
    made = shell_of(model)
    for name, child in model._modules.items():
        below = {path.partition(".")[2] for path in wanted if path.partition(".")[0] == name}
        made._modules[name] = compile_only(child, below, compile_part) if below and child is not None else child
    return made


def _whole(compiled: Any) -> torch.nn.Module:
    made: torch.nn.Module = compiled
    return made
