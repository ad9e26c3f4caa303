"""Submodules compiled in the place of the module that holds them, as `model.part.compile()` does it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from dynalyze.capture.hooks import Patch
from dynalyze.capture.torch_private import runtime

Regions = Mapping[str, Sequence[str]]
"""Of each class of modules, by its qualified name, the paths of the submodules that are compiled in its place."""


@dataclass(frozen=True)
class RegionalCompile:
    """What can be compiled in the place of modules that break; `lines` do so. `operators` and `seconds` are the shares
    of an eager pass of the calls that it runs: of its operators, views being none, and of its time.
    """

    regions: dict[str, list[str]] = field(default_factory=dict)
    lines: str = ""
    operators: float = 0.0
    seconds: float = 0.0


def parts_of(module: Any, regions: Regions) -> list[Any]:
    """The submodules to compile in the place of a module; none where it is to be compiled itself."""
    paths = regions.get(type(module).__qualname__, ())
    try:
        return [module.get_submodule(path) for path in paths]
    except AttributeError:  # Another class of that name.
        return []


def compile_parts(module: Any, regions: Regions, compile_call: Callable[[Any], Any]) -> bool:
    """Compile the regions of a module, those that are not compiled yet; False where it has none.

    `compile_call` is given the method that a call of a submodule runs, as `Module.compile` gives it to torch.compile.
    """
    parts = parts_of(module, regions)
    for part in parts:
        if not runtime.compiled_in_place(part):
            part._compiled_call_impl = compile_call(part._call_impl)
    return bool(parts)


def drop_parts(modules: Iterable[Any], regions: Regions) -> None:
    """Drop the compiled calls of the regions of these modules."""
    for module in modules:
        for part in parts_of(module, regions):
            runtime.drop_compiled_call(part)


def compile_in_place_of_wholes(torch: ModuleType, regions: Regions) -> None:
    """Have each torch.compile of a module with regions, whoever calls it, compile these instead."""
    patch = Patch(torch, "compile")

    @functools.wraps(patch.original)
    def compile(model: Any = None, **arguments: Any) -> Any:
        module = getattr(model, "__self__", model)
        made = compile_parts(module, regions, lambda call: patch.original(call, **arguments))
        return model if made else patch.original(model, **arguments)

    patch.put(compile)
