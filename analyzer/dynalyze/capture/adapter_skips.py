"""The private APIs of torch's compiler that tell which functions it leaves in eager without a graph break.

Run on torch 2.13. Where torch does not note its reasons (older versions), nothing is heard and nothing is claimed.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dynalyze.capture.adapter import StackFrame, frame_entry
from dynalyze.capture.layers import Layer

_BOUNDARY = ("torch/_dynamo/eval_frame.py", "torch\\_dynamo\\eval_frame.py")
_MOST_VALUES = 50


@dataclass(frozen=True)
class Skipped:
    """A function that was offered to the compiler and left in eager.

    `entry`: it was given to torch.compile itself. `tensors`: it was called with tensors or modules.
    """

    code: StackFrame
    reason: str
    owner: str = ""
    entry: bool = False
    tensors: bool = False


def watch_skips(tell: Callable[[Skipped], None]) -> Callable[[], None]:
    """Call `tell` for each function, outside torch, that the compiler leaves in eager. Returns what ends it.

    torch hands the reason and the frame to one function, which is replaced. A code object is skipped once and for all.
    """
    module = sys.modules.get("torch._dynamo.convert_frame")
    if not hasattr(module, "add_skip_reason"):
        return lambda: None
    layer = Layer(module, "add_skip_reason")
    inside = _torch_folder()

    @functools.wraps(layer.original)
    def add_skip_reason(reason: str, frame: Any) -> Any:
        if layer.active and not frame.f_code.co_filename.startswith(inside):
            tell(_skipped(str(reason), frame))
        return layer.original(reason, frame)

    return layer.put(add_skip_reason)


def marked_disabled(value: Any) -> types.CodeType | None:
    """The code behind a function, or a module's forward, that torch.compiler.disable keeps from being compiled."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        value = value.forward
    if not getattr(value, "_torchdynamo_disable", False) or not getattr(value, "_torchdynamo_disable_recursive", True):
        return None
    code = getattr(getattr(value, "__wrapped__", None), "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _skipped(reason: str, frame: Any) -> Skipped:
    code, names = frame.f_code, dict(frame.f_locals)
    return Skipped(
        frame_entry(code.co_filename, code.co_firstlineno, code.co_name, None, None),
        reason,
        _owner(code, names),
        _is_entry(sys._getframe(2)),
        any(_is_tensor(value) for value in _values(names)),
    )


def _owner(code: types.CodeType, names: dict[str, Any]) -> str:
    """The class of the module whose method this is."""
    torch = sys.modules["torch"]
    first = next((names.get(name) for name in code.co_varnames[:1]), None)
    return type(first).__qualname__ if isinstance(first, torch.nn.Module) else ""


def _values(names: dict[str, Any]) -> list[Any]:
    """The values of a call, and what its lists and dictionaries hold."""
    found: list[Any] = []
    for value in islice(names.values(), _MOST_VALUES):
        if type(value) in (list, tuple, dict):
            found += islice(value.values() if isinstance(value, dict) else value, _MOST_VALUES)
        else:
            found.append(value)
    return found


def _is_tensor(value: Any) -> bool:
    torch = sys.modules["torch"]
    return isinstance(value, torch.Tensor | torch.nn.Module)


def _is_entry(frame: types.FrameType | None) -> bool:
    """Whether nothing but torch stands between the compiled call and this frame."""
    inside = _torch_folder()
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        if frame.f_code.co_filename.endswith(_BOUNDARY):
            return True
        frame = frame.f_back
    return False


@functools.cache
def _torch_folder() -> str:
    return os.path.dirname(sys.modules["torch"].__file__ or "") + os.sep  # noqa: PTH120 - as in code objects
