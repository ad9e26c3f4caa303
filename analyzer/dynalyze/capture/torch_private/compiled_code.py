"""The compiled code that Dynamo holds: its versions, the graphs that they call, their guards; how to stand between.

Run on torch 2.8, 2.11, 2.13 and 2.15. Code that Dynamo makes calls its graphs and the rests of broken functions by
names among the function's globals: there, and without anything being compiled again, something can stand in for them.
Where a version of torch lacks one of these parts nothing is found or reported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from dynalyze.capture.installed import is_torchs
from dynalyze.capture.torch_private.dynamo import tried_codes

RESUME_PREFIX = "__resume_at"
BACKWARD_NODE = "CompiledFunctionBackward"
"""The class of the autograd node that runs a compiled backward graph."""


@dataclass(eq=False)
class CompiledVersion:
    """One compiled version of a function: what it was made of, the code that runs, and what has to hold for it."""

    compile_id: str
    original: CodeType
    code: CodeType
    guards: Any = field(repr=False, default=None)

    def names(self, prefix: str) -> list[str]:
        """The globals with this prefix that the code calls."""
        return [name for name in self.code.co_names if name.startswith(prefix)]


def saving_graph(frame: FrameType) -> Any:
    """The compiled graph whose forward saves tensors from this frame, as the class of its autograd function; None where
    it is anything else that saves.
    """
    if frame.f_code.co_name != "apply" or not is_torchs(frame.f_code.co_filename):
        return None
    function = frame.f_locals.get("cls")
    return function if f"{getattr(function, '__name__', '')}Backward" == BACKWARD_NODE else None


def graph_of_node(node: Any) -> Any:
    """The compiled graph whose backward an autograd node runs, as `saving_graph` gives it."""
    return getattr(node, "_forward_cls", None)


def versions() -> list[CompiledVersion]:
    """Every compiled version that this process holds."""
    found: list[CompiledVersion] = []
    with contextlib.suppress(ImportError, AttributeError):
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

        for code in tried_codes():
            for entry in _debug_get_cache_entry_list(code):
                root = getattr(entry.guard_manager, "root", None)
                found.append(CompiledVersion(str(entry.compile_id), code, entry.code, root))
    return found


def leave_in_eager(code: CodeType) -> bool:
    """Have Dynamo run this code as it is, and still look at what it calls; False where it cannot be told to."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo.eval_frame import skip_code

        skip_code(code)
        return True
    return False


def frame_callback_setter() -> Callable[[Any], Any] | None:
    """A function in C that says what Dynamo does with this thread's new frames (None: nothing), and returns what it
    did before.
    """
    found = getattr(getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "set_eval_frame", None)
    return found if callable(found) else None


@contextlib.contextmanager
def not_compiling() -> Iterator[None]:
    """Keep Dynamo from compiling what the block calls."""
    change = frame_callback_setter()
    before = change(None) if change is not None else None
    try:
        yield
    finally:
        if change is not None:
            change(before)


@contextlib.contextmanager
def without_guards() -> Iterator[bool]:
    """Only guards that tell versions apart are checked; yields False where torch has no such stance."""
    try:
        stance = torch.compiler.set_stance(skip_guard_eval_unsafe=True)
    except (AttributeError, TypeError):
        yield False
        return
    with stance:
        yield True


class GuardedSource(NamedTuple):
    """What guards look at, how many sources led to it, and the types of the guards on it itself."""

    name: str
    depth: int
    checks: frozenset[str] = frozenset()


def guard_sources(guards: Any) -> list[GuardedSource]:
    """The sources that a version's guards look at, in order."""
    found: list[GuardedSource] = []
    todo = [(guards, 0)]
    with contextlib.suppress(AttributeError):
        while todo:
            manager, depth = todo.pop()
            checks = frozenset(type(guard).__name__ for guard in manager.get_leaf_guards())
            found.append(GuardedSource(str(manager.get_source()), depth, checks))
            todo += [(child, depth + 1) for child in reversed(manager.get_child_managers())]
    return found[1:]


def guards_without(guards: Any, sources: Collection[str]) -> Callable[[dict[str, Any]], bool] | None:
    """A check of the locals of a call against these guards, but for those of some sources and what is reached by them.

    None where torch cannot take guards apart.
    """
    left_out = frozenset(sources)
    clone = getattr(guards, "clone_manager", None)
    if clone is None:
        return None
    check: Callable[[dict[str, Any]], bool] | None = getattr(
        clone(lambda manager: manager.get_source() not in left_out), "check", None
    )
    return check


def guards_run(guards: Any, scope: dict[str, Any]) -> int | None:
    """How many guards are checked for the locals of a call; None where torch does not tell."""
    with contextlib.suppress(Exception):
        return int(guards.check_verbose(scope).num_guards_executed)
    return None
