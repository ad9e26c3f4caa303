"""What torch does without a record of it: graphs left without a CUDA graph, hooks that a module gets, methods fetched
through what torch.compile made of a module.

Each is one function of torch's, which is replaced. Run on torch 2.13; where a version lacks it nothing is reported.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dynalyze.capture.hooks import Patch, after_import
from dynalyze.capture.torch_private.dynamo import compile_id, frames_from

_SKIPS, _MANAGER = "torch._inductor.cudagraph_utils", "cudagraph_trees.py"
_LOG_SKIP = "log_cudagraph_skip_and_bump_counter"
# They took the function over by its name, those that are imported by now.
_USERS = ("torch._inductor.cudagraph_trees", "torch._inductor.output_code", "torch._inductor.compile_fx")


def watch_cudagraph_skips(emit: Callable[[str, str], None]) -> Callable[[], None]:
    """Call `emit(compile id, reason)` with each reason for which Inductor leaves a graph without a CUDA graph; the id
    is "" where none is known. Returns what calls it off before torch is there.
    """

    def put(module: ModuleType) -> None:
        original = getattr(module, _LOG_SKIP, None)
        for owner in (module, *(sys.modules[name] for name in _USERS if name in sys.modules)):
            if original is not None and getattr(owner, _LOG_SKIP, None) is original:
                _put(owner, emit)

    return after_import(_SKIPS, put)


def _put(owner: ModuleType, emit: Callable[[str, str], None]) -> None:
    patch = Patch(owner, _LOG_SKIP)

    @functools.wraps(patch.original)
    def log_skip(msg: str, *rest: Any, **named: Any) -> Any:
        if patch.active:
            with contextlib.suppress(Exception):
                emit(_compile_that_runs() or compile_id(), str(msg))
        return patch.original(msg, *rest, **named)

    patch.put(log_skip)


def _compile_that_runs() -> str:
    """The compile whose graph runs, as the manager of CUDA graphs knows it; "" outside of a run."""
    for frame in frames_from(sys._getframe(2)):
        if frame.f_code.co_filename.endswith(_MANAGER):
            known = getattr(frame.f_locals.get("self"), "compile_id", None)
            if known is not None:
                return str(known)
    return ""


def watch_fetches(notice: Callable[[types.MethodType], None]) -> Callable[[], None]:
    """Call `notice(method)` for each method that a program fetches through what torch.compile made of a module, outside
    of compiled code; Dynamo must be imported. The program gets the method itself. Returns what ends it.
    """
    from dynalyze.capture.torch_private.compiled_calls import compile_callback

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

    return _unseen_by_dynamo(patch, __getattr__)


def watch_registrations(notice: Callable[[Any, str, Callable[[], bool]], None]) -> Callable[[], None]:
    """Call `notice(module, method, is_there)` for each `module.register_forward_hook(...)` and its like, as their
    handles are made; `is_there` says until when. Dynamo must be imported. Returns what ends it.
    """
    import torch

    from dynalyze.capture.torch_private.compiled_code import frame_callback_setter

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
                hooks, number = self.hooks_dict_ref, self.id
                notice(module, method, lambda: number in (hooks() or ()))
        except Exception:
            return
        finally:
            set_callback(compiling)

    return _unseen_by_dynamo(patch, __init__)


def _unseen_by_dynamo(patch: Patch, function: Any) -> Callable[[], None]:
    """Put a function where Dynamo traces the original in its place; not where this torch cannot be told to."""
    from dynalyze.capture.torch_private.compiled_code import leave_in_eager

    function._torchdynamo_inline = patch.original
    return patch.put(function) if leave_in_eager(function.__code__) else lambda: None
