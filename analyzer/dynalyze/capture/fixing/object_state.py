"""Everything that calls can change and later calls can see: what a model and its functions hold, directly or through
other objects. It is compared with what it was, and put back, so that every run starts from the same state.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import os
import sys
import threading
import types
import weakref
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.bench.compare import identical
from dynalyze.capture.fixing.moving_values import Moving, moving_value
from dynalyze.capture.fixing.state_parts import (
    GONE,
    AttributesPart,
    CellsPart,
    ClassPart,
    DictPart,
    EnvironmentPart,
    ItemsPart,
    NamesPart,
    Part,
    TensorPart,
    VariablePart,
    WeakPart,
    same_value,
)
from dynalyze.capture.fixing.watching import SCALARS, Outline, outlined
from dynalyze.capture.installed import file_of, is_installed
from dynalyze.capture.nested_values import container_base, is_plain_object

_MOST = 40_000
_OF_MODULES = frozenset((*vars(torch.nn.Module()), "_compiled_call_impl")) - {
    "training", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks",
    "_non_persistent_buffers_set",
}  # fmt: skip
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement.
_PLAIN = (bool, int, float, complex, str, type(None))


class HeldState:
    """What some roots lead to: containers, objects, modules, classes, functions with their globals, closures and
    defaults, tensors, arrays and random generators. Functions of installed packages are not followed. Tensors whose ids
    are in `besides` are held elsewhere. Without `structure` a child of a module may be exchanged.
    """

    def __init__(self, besides: Collection[int] = (), *, structure: bool = True) -> None:
        self.ignored: set[str] = set()
        """Names that a change adds or replaces, which are no state."""
        self.ignored_members: set[tuple[type, str]] = set()
        """Likewise what classes get."""
        self._seen: dict[int, Any] = _of_python()
        self._parts: list[Part] = []
        self._tensors: list[_Tensor] = []
        self._moving: list[Moving] = []
        self._besides = frozenset(besides)
        self._without = _OF_MODULES if structure else _OF_MODULES | {"_modules"}
        self._containers: dict[int, str] = {}
        self.cut = False
        """Whether there is more than can be held: nobody looks at the rest."""

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, name: str, root: Any, *, own: bool = False) -> None:
        """Also hold what `root` leads to; globals of functions are followed if they are `own`, or the user's."""
        waiting = deque([(name, root, own)])
        while waiting and len(self._seen) < _MOST:
            path, value, own = waiting.popleft()
            if isinstance(value, SCALARS) or id(value) in self._seen or _is_ours(value):
                continue
            self._seen[id(value)] = value
            if isinstance(value, list | dict | set):
                self._containers[id(value)] = path
            waiting.extend((name, child, False) for name, child in self._hold(path, value, own))
        self.cut = self.cut or bool(waiting)

    def add_environment(self) -> None:
        """Also hold the environment variables."""
        deque(self._part("environment", EnvironmentPart(os.environ)), maxlen=0)

    def changes(self) -> Outline:
        """Everything that differs from before, by path."""
        found = Outline()
        for part in self._parts:
            part.changes(found)
        for held in self._tensors:
            if held.changed():
                outlined(held.tensor, held.path, found)
        for moving in self._moving:
            if (now := moving.position(moving.value)) != moving.start:
                found.values[moving.path] = now - moving.start if isinstance(now, int) else moving.told(now)
        return found

    def plain_changes(self) -> dict[str, Any]:
        """The numbers, texts and switches that differ from before, by path."""
        return {
            f"{part.path}{part.step(key)}".replace("_modules.", "").lstrip("."): value
            for part in self._parts
            for then, now in [(part.before(), part.now())]
            for key, value in now.items()
            if isinstance(value, _PLAIN) and not same_value(then.get(key, GONE), value)
        }

    def restore(self) -> None:
        """Put back everything that can be."""
        for part in self._parts:
            part.restore()
        for held in self._tensors:
            if held.changed():
                held.restore()
        for moving in self._moving:
            if moving.put is not None:
                moving.put(moving.value, moving.start)
            else:
                moving.start = moving.position(moving.value)

    def containers(self) -> dict[int, str]:
        """The paths of the lists, dicts and sets that existed before, by id."""
        return self._containers

    def shared(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors that existed before, by path."""
        return ((held.path, held.tensor) for held in self._tensors)

    def new_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors that were stored since, by path."""
        found = Outline()
        for part in self._parts:
            part.changes(found, copies=False)
        known = {id(held.tensor) for held in self._tensors}
        return ((path, tensor) for path, tensor in found.tensors.items() if id(tensor) not in known)

    def _hold(self, path: str, value: Any, own: bool) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            yield from self._part(path, TensorPart(value))
            known = value.device.type == "meta" or id(value) in self._besides
            if not known and value.layout is torch.strided and not value.is_quantized:
                self._tensors.append(_Tensor(path, value))
            return
        if (moving := moving_value(path, value)) is not None:
            self._moving.append(moving)
        elif isinstance(value, torch.nn.Module):
            yield from self._part(path, AttributesPart(value, self._without))
            if "_modules" in self._without:
                yield from ((f"{path}.{name}", child) for name, child in value._modules.items())
            yield path, type(value)
        elif isinstance(value, types.MethodType):
            yield from ((path, value.__self__), (path, value.__func__))
        elif isinstance(value, contextvars.ContextVar):
            yield from self._part(path, VariablePart(value))
        elif isinstance(value, weakref.WeakSet | weakref.WeakKeyDictionary | weakref.WeakValueDictionary):
            deque(self._part(path, WeakPart(value)), maxlen=0)
        elif isinstance(value, threading.local):
            yield from self._part(path, DictPart(vars(value)))
        elif isinstance(value, functools.partial):
            yield from ((f"{path}.{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
        elif isinstance(value, types.FunctionType):
            yield from self._function(path, value, own)
        elif isinstance(value, types.ModuleType):
            # torch.ops and what it holds are modules too, which look their operators up as they are asked for.
            if _is_own(file_of(value)) and not _is_torchs(type(value)):
                yield from self._part(f"{value.__name__}", NamesPart(vars(value), self.ignored))
        elif isinstance(value, type):
            if _is_own(file_of(sys.modules.get(value.__module__))) or value.__module__ == "__main__":
                yield from self._part(f"class {value.__name__}", ClassPart(value, self.ignored_members))
        elif not _is_torchs(type(value)):
            yield from self._contents(path, value)

    def _contents(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        base = container_base(value)
        if base is not None:
            kind = DictPart if issubclass(base, dict) else ItemsPart
            yield from self._part(path, kind(value))
        if (base is None or base is not type(value)) and _has_attributes(value):
            yield from self._part(path, AttributesPart(value))
        if base is not type(value) and hasattr(type(value), "__dict__"):
            yield path, type(value)

    def _function(self, path: str, function: types.FunctionType, own: bool) -> Iterator[tuple[str, Any]]:
        if not own and not _is_own(function.__code__.co_filename):
            return
        yield from self._part(path, NamesPart(vars(function), self.ignored))
        yield from ((f"{path} default {name}", value) for name, value in (function.__kwdefaults__ or {}).items())
        yield from ((f"{path} default {number}", value) for number, value in enumerate(function.__defaults__ or ()))
        if function.__closure__:
            yield from self._part(
                path, CellsPart(dict(zip(function.__code__.co_freevars, function.__closure__, strict=True)))
            )
        space = function.__globals__
        if id(space) not in self._seen:
            self._seen[id(space)] = space
            yield from self._part("global", NamesPart(space, self.ignored))

    def _part(self, path: str, part: Part) -> Iterator[tuple[str, Any]]:
        part.path = path
        part.then = part.now()
        self._parts.append(part)
        for key, value in part.then.items():
            yield f"{path}{part.step(key)}".lstrip("."), value


def _is_ours(value: Any) -> bool:
    """Whether it belongs to dynalyze: not the program's state, even if the program imports us."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
    else:
        named = isinstance(value, type | types.FunctionType)
        name = (value if named else type(value)).__module__
    return isinstance(name, str) and name.partition(".")[0] == __name__.partition(".")[0]


_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._logging")


def _of_python() -> dict[int, Any]:
    """The containers of Python's own modules and of torch's compiler, by id: `sys.modules`, `linecache.cache`,
    `torch._dynamo.utils.counters` and others are nobody's state, though a program may have them among its globals.
    Restoring the first would import a module twice.
    """
    compiler = [name for name in list(sys.modules) if name.startswith(_COMPILER)]
    modules = (sys.modules.get(name) for name in (*sys.stdlib_module_names, *compiler))
    values = (value for module in modules if module is not None for value in list(vars(module).values()))
    return {id(value): value for value in values if issubclass(type(value), dict | list | set)}


@dataclass
class _Tensor:
    path: str
    tensor: torch.Tensor
    then: torch.Tensor = field(init=False)
    gradient: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.then = self.tensor.detach().clone()
        self._needs_grad = self.tensor.requires_grad

    def changed(self) -> bool:
        return self.tensor.requires_grad != self._needs_grad or not identical(self.tensor.detach(), self.then)

    def restore(self) -> None:
        same = self.tensor.shape == self.then.shape and self.tensor.dtype == self.then.dtype
        with torch.inference_mode(self.tensor.is_inference()), torch.no_grad():
            if same:
                self.tensor.data.copy_(self.then)
            else:
                self.tensor.data = self.then.clone()
        if self.tensor.requires_grad != self._needs_grad:  # Something with a gradient was written into it.
            with contextlib.suppress(RuntimeError):
                self.tensor.detach_().requires_grad_(self._needs_grad)


class Remembering:
    """The functions that cached results (functools.lru_cache) while something was `watched`."""

    def __init__(self) -> None:
        self._used: list[Any] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Find out which of them cache more during the block."""
        wrapper: Any = functools._lru_cache_wrapper
        known = [each for each in gc.get_objects() if type(each) is wrapper and not _is_of_torch(each)]
        before = [each.cache_info().misses for each in known]
        yield
        misses = zip(known, before, strict=True)
        self._used = [each for each, then in misses if each.cache_info().misses != then]

    def forget(self) -> None:
        """Clear their caches."""
        for each in self._used:
            each.cache_clear()


def _is_of_torch(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def _has_attributes(value: Any) -> bool:
    """Whether it is a plain object, or could become one: no attribute has been set yet."""
    kind = type(value)
    if is_plain_object(value):
        return True
    is_made_by_python = bool(kind.__flags__ & _HEAP_TYPE) and hasattr(value, "__dict__") and not callable(value)
    return is_made_by_python and kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _is_own(file: str) -> bool:
    """Whether a file is the user's, not an installed one."""
    return bool(file) and not is_installed(file)
