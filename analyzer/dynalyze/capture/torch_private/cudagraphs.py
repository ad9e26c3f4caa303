"""Where Inductor leaves a graph without a CUDA graph. Some of it shows only when the graph runs, in no record."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from dynalyze.capture.hooks import Patch, after_import
from dynalyze.capture.torch_private.dynamo import compile_id, frames_from

_HOME, _MANAGER = "torch._inductor.cudagraph_utils", "cudagraph_trees.py"
_NAME = "log_cudagraph_skip_and_bump_counter"
# They took the function over by its name, those that are imported by now.
_USERS = ("torch._inductor.cudagraph_trees", "torch._inductor.output_code", "torch._inductor.compile_fx")


def watch_skips(emit: Callable[[str, str], None]) -> Callable[[], None]:
    """Call `emit(compile id, reason)` with each reason that torch gives; the id is "" where none is known.

    torch says it through one function, which is replaced. Returns what calls it off before torch is there.
    """

    def put(module: ModuleType) -> None:
        original = getattr(module, _NAME, None)
        if original is None:
            return
        for owner in (module, *(sys.modules[name] for name in _USERS if name in sys.modules)):
            if getattr(owner, _NAME, None) is original:
                _put(owner, emit)

    return after_import(_HOME, put)


def _put(owner: ModuleType, emit: Callable[[str, str], None]) -> None:
    patch = Patch(owner, _NAME)

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
