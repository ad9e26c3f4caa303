"""Methods that are fetched through what torch.compile made of a module, which passes them on from the original: run on
torch 2.13.

Where that class is another one nothing is told.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from dynalyze.capture.hooks import Patch


def watch_fetches(notice: Callable[[types.MethodType], None]) -> Callable[[], None]:
    """Call `notice(method)` for each method that a program fetches so outside of compiled code; Dynamo must be
    imported. The program gets the method itself. Returns what ends it.
    """
    from dynalyze.capture.torch_private.compiled_calls import compile_callback
    from dynalyze.capture.torch_private.compiled_code import leave_in_eager

    wrapper = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", None)
    if wrapper is None or "__getattr__" not in vars(wrapper):
        return lambda: None
    patch = Patch(wrapper, "__getattr__")
    original, method_type = patch.original, types.MethodType

    def __getattr__(self: Any, name: str) -> Any:
        found = original(self, name)
        if type(found) is method_type and patch.active and compile_callback() is None:
            notice(found)
        return found

    __getattr__._torchdynamo_inline = original  # type: ignore[attr-defined]  # What Dynamo traces in its place.
    if not leave_in_eager(__getattr__.__code__):
        return lambda: None
    return patch.put(__getattr__)
