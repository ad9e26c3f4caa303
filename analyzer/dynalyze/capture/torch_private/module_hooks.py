"""Registrations of hooks on modules, as their handles are made: run on torch 2.13.

Where a handle is made otherwise nothing is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dynalyze.capture.hooks import Patch


def watch_registrations(notice: Callable[[Any, str], None]) -> Callable[[], None]:
    """Call `notice(module, method)` for each `module.register_forward_hook(...)` and its like; Dynamo must be imported.
    Returns what ends it.
    """
    import torch

    from dynalyze.capture.torch_private.compiled_code import frame_callback_setter, leave_in_eager

    handle = getattr(sys.modules.get("torch.utils.hooks"), "RemovableHandle", None)
    set_callback = frame_callback_setter()
    if handle is None or set_callback is None:
        return lambda: None
    patch = Patch(handle, "__init__")
    original, module_class = patch.original, torch.nn.Module

    def __init__(self: Any, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        original(self, hooks_dict, extra_dict=extra_dict)
        if not patch.active:
            return
        compiling = set_callback(None)  # What follows is not the program's, and is not to be compiled.
        try:
            caller = sys._getframe(1)
            module, method = caller.f_locals.get("self"), caller.f_code.co_name
            if method.startswith("register_") and isinstance(module, module_class):
                notice(module, method)
        except Exception:
            return
        finally:
            set_callback(compiling)

    __init__._torchdynamo_inline = original  # type: ignore[attr-defined]  # What Dynamo traces in its place.
    if not leave_in_eager(__init__.__code__):
        return lambda: None
    return patch.put(__init__)
