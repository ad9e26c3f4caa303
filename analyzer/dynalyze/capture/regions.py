"""Submodules compiled in the place of the module that holds them, as `model.part.compile()` does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynalyze.capture.torch_private import runtime


def compile_parts(module: Any, regions: Mapping[str, Sequence[str]], compile_call: Callable[[Any], Any]) -> bool:
    """Compile the regions of a module, those that are not compiled yet; False where it has none.

    `regions` are paths of submodules by the qualified name of the module's class. `compile_call` is given the method
    that a call of a submodule runs, as `Module.compile` gives it to torch.compile.
    """
    parts = [module.get_submodule(path) for path in regions.get(type(module).__qualname__, ())]
    for part in parts:
        if not runtime.compiled_in_place(part):
            part._compiled_call_impl = compile_call(part._call_impl)
    return bool(parts)
