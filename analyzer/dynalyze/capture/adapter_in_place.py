"""The private parts of torch that compiling in place needs, each with what is done where a version lacks it.

Run on torch 2.8, 2.13 and 2.15.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import torch

from dynalyze.capture.adapter import is_compile_error

_COMPILER = tuple(str(Path(torch.__file__).parent / name) for name in ("_dynamo", "_inductor", "_functorch"))
_GENERATED = "torchinductor_"

_graph_task = getattr(torch._C, "_current_graph_task_id", lambda: -1)


def in_backward() -> bool:
    """Whether autograd runs on this thread: its calls of modules are recomputations of checkpoints, or of hooks."""
    return bool(_graph_task() != -1)


def raised_by_compiler(error: BaseException) -> bool:
    """Whether an error comes from the compiler or from code that it made, and not from the program's own code."""
    if is_compile_error(error):
        return True
    last = _innermost(error.__traceback__)
    return last.startswith(_COMPILER) or _GENERATED in last


def _innermost(trace: TracebackType | None) -> str:
    file = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return file


def reset() -> None:
    """Have torch forget all that it compiled."""
    import torch._dynamo

    torch._dynamo.reset()
