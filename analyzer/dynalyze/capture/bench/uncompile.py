"""Takes back what a program compiled, in the objects themselves: they are measured in the process that ran it."""

from __future__ import annotations

from typing import Any

import torch

from dynalyze.capture.nested_values import reachable_modules
from dynalyze.capture.torch_private import compiled_calls, runtime


def uncompile(target: Any) -> None:
    """Leave nothing compiled in the modules that `target` reaches; a bundle does the same where it is written."""
    for module in reachable_modules(target):
        for part in module.modules():
            _uncompile_part(part)


def _uncompile_part(part: torch.nn.Module) -> None:
    if runtime.compiled_in_place(part):
        runtime.drop_compiled_call(part)
    for name, child in part._modules.items():
        if child is not None and compiled_calls.is_compiled_module(child):
            part._modules[name] = compiled_calls.original_of(child)
    for name, value in list(vars(part).items()):
        if compiled_calls.is_compiled_function(value):
            _restore(part, name, compiled_calls.original_of(value))


def _restore(part: torch.nn.Module, name: str, original: Any) -> None:
    """An attribute that held a compiled function; a method of the class itself needs no attribute."""
    if getattr(original, "__self__", None) is part and getattr(type(part), name, None) is original.__func__:
        delattr(part, name)
    else:
        vars(part)[name] = original
