"""The compiled code that Dynamo holds: its versions, the graphs that they call, their guards; how to stand between.

Run on torch 2.8, 2.11, 2.13 and 2.15. Code that Dynamo makes calls its graphs and the rests of broken functions by
names among the function's globals: there, and without anything being compiled again, something can stand in for them.
Where a version of torch lacks one of these parts nothing is found, and nothing is told.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from dynalyze.capture.torch_private.dynamo import tried_codes

RESUME_PREFIX = "__resume_at"
BACKWARD_NODE = "CompiledFunctionBackward"
"""The class of the autograd node that runs a compiled backward graph."""

_NO_LIMIT = 1 << 20


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
    if frame.f_code.co_name != "apply" or not is_torchs(frame.f_code):
        return None
    function = frame.f_locals.get("cls")
    return function if f"{getattr(function, '__name__', '')}Backward" == BACKWARD_NODE else None


def graph_of_node(node: Any) -> Any:
    """The same of a node of the autograd graph."""
    return getattr(node, "_forward_cls", None)


def is_torchs(code: CodeType) -> bool:
    """Whether the code is a part of torch itself."""
    folder = str(Path(str(torch.__file__)).parent)
    return code.co_filename.startswith(folder + os.sep)


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
    """What is called in the block Dynamo does not look at."""
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


GuardFilter = Callable[[Sequence[Any]], Sequence[bool]]
"""Which of the guards that torch made are kept."""


def takes_argument(name: str) -> bool:
    """Whether torch.compile hands an argument of this name on to Dynamo: torch 2.8 a filter of guards, 2.13 more."""
    from torch._dynamo import eval_frame

    code = getattr(getattr(eval_frame, "_optimize", None), "__code__", None)
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
    return _optimize() is not None and name in taken


def has_setting(name: str) -> bool:
    """Whether Dynamo has this setting, and it still does something."""
    from torch._dynamo import config

    # torch warns of a deprecated one whenever it is read.
    entry = getattr(config, "_config", {}).get(name)
    return not getattr(entry, "deprecated", False) and hasattr(config, name)


def setting(name: str) -> Any:
    """The value that one of Dynamo's settings has now."""
    from torch._dynamo import config

    return getattr(config, name)


@contextlib.contextmanager
def room_for_versions(settings: dict[str, Any]) -> Iterator[None]:
    """Dynamo with these settings, and with no limit on the versions of a function that is reached in a trial."""
    from torch._dynamo import config

    limits = ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit")
    found = {name: _NO_LIMIT for name in limits if isinstance(getattr(config, name, None), int)}
    with config.patch({**found, **settings}):
        yield


def forget_sizes() -> None:
    """Have the next compiles begin as the first did: without what Dynamo noted of the sizes that vary."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo.pgo import reset_code_state

        reset_code_state()


@contextlib.contextmanager
def compiled_apart(keep: GuardFilter | None, **arguments: Any) -> Iterator[list[int]]:
    """What torch.compile is given in the block, by whomever, shares compiled code among itself as ever, and none with
    anything outside: it can be compared with that in one process. Only guards that `keep` keeps are checked in it.

    `arguments` are more that torch.compile passes on. The one number of the list counts how often it was called: 0
    says that the block has reached nothing, as it is where torch has no such place.
    """
    import torch._dynamo

    reached, original, apart = [0], _optimize(), dict[Any, Any]()
    if original is None:
        yield reached
        return

    def optimize(*args: Any, **kwargs: Any) -> Any:
        reached[0] += 1
        own = kwargs.get("guard_filter_fn")
        if keep is not None:
            kwargs["guard_filter_fn"] = keep if own is None else _both(own, keep)
        backend, *rest = args or (kwargs.pop("backend", "inductor"),)
        return original(_set_apart(backend, apart), *rest, **{**kwargs, **arguments})

    torch._dynamo.optimize = optimize
    try:
        yield reached
    finally:
        torch._dynamo.optimize = original


def _optimize() -> Callable[..., Any] | None:
    """Through which torch.compile compiles, whatever it is given."""
    import torch._dynamo

    found: Callable[..., Any] | None = getattr(torch._dynamo, "optimize", None)
    return found


def _both(one: GuardFilter, other: GuardFilter) -> GuardFilter:
    return lambda guards: [a and b for a, b in zip(one(guards), other(guards), strict=True)]


def _set_apart(backend: Any, apart: dict[Any, Any]) -> Any:
    """The same backend, equal to those alike in `apart` and to no other: what an equal one has compiled Dynamo takes
    for its own.
    """
    kind: Any = type(backend)
    if kind.__module__ == "torch":  # torch.compile has made it, for this one call.

        def equal(self: Any, other: Any) -> bool:
            return type(other) is type(self) and bool(kind.__eq__(self, other))

        members = {"__eq__": equal, "__hash__": object.__hash__, "__module__": kind.__module__}
        backend.__class__ = apart.setdefault(kind, type(kind.__name__, (kind,), members))
        return backend
    from torch._dynamo import lookup_backend

    found = lookup_backend(backend) if isinstance(backend, str) else backend
    return apart.setdefault(id(found), lambda graph, inputs: found(graph, inputs))
