"""Everything that calls can change and later calls can see: what a model and its functions hold, directly or through
other objects. It is compared with what it was, and put back, so that every run starts from the same state.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import pickle
import random
import re
import sys
import types
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.bench.compare import identical
from dynalyze.capture.fixing.watching import SCALARS, Outline, outlined
from dynalyze.capture.inspecting.settings import OF_LIBRARIES
from dynalyze.capture.installed import is_installed
from dynalyze.capture.nested_values import container_base, is_plain_object
from dynalyze.capture.torch_private.dynamo import constant_functions

_MOST = 40_000
_OF_MODULES = frozenset((*vars(torch.nn.Module()), "_compiled_call_impl")) - {
    "training", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks",
}  # fmt: skip
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement.
_OF_DYNAMO = re.compile(r"__|sub_\d|\w*_\d{6,}_c\d")
"""Globals that are Python's own, or put there by Dynamo for code that it made."""
_GONE = object()
_PLAIN = (bool, int, float, complex, str, type(None))


class HeldState:
    """What some roots lead to: containers, objects, modules, classes, functions with their globals, closures and
    defaults, tensors, arrays and random generators. Functions of installed packages are not followed. Tensors whose ids
    are in `besides` are held elsewhere. Without `structure` a child of a module may be exchanged.
    """

    def __init__(self, besides: Collection[int] = (), *, structure: bool = True) -> None:
        self.ignored: set[str] = set()
        """Names that a change adds or replaces, which are no state."""
        self._seen: dict[int, Any] = _of_python()
        self._parts: list[_Part] = []
        self._tensors: list[_Tensor] = []
        self._moving: list[_Moving] = []
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
        deque(self._part("environment", _Environment(os.environ)), maxlen=0)

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
                ahead = now - moving.start if isinstance(now, int) else "another position"
                found.values[moving.path] = ahead
        return found

    def plain_changes(self) -> dict[str, Any]:
        """The numbers, texts and switches that differ from before, by path."""
        return {
            f"{part.path}{part.step(key)}".replace("_modules.", "").lstrip("."): value
            for part in self._parts
            for then, now in [(part.before(), part.now())]
            for key, value in now.items()
            if isinstance(value, _PLAIN) and not _same(then.get(key, _GONE), value)
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
            known = value.device.type == "meta" or id(value) in self._besides
            if not known and value.layout is torch.strided and not value.is_quantized:
                self._tensors.append(_Tensor(path, value))
            return
        if (moving := _moving(path, value)) is not None:
            self._moving.append(moving)
        elif isinstance(value, torch.nn.Module):
            yield from self._part(path, _Attributes(value, self._without))
            if "_modules" in self._without:
                yield from ((f"{path}.{name}", child) for name, child in value._modules.items())
            yield path, type(value)
        elif isinstance(value, types.MethodType):
            yield from ((path, value.__self__), (path, value.__func__))
        elif isinstance(value, functools.partial):
            yield from ((f"{path}.{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
        elif isinstance(value, types.FunctionType):
            yield from self._function(path, value, own)
        elif isinstance(value, types.ModuleType):
            # torch.ops and what it holds are modules too, which look their operators up as they are asked for.
            if _is_own(getattr(value, "__file__", None)) and not _is_torchs(type(value)):
                yield from self._part(f"{value.__name__}", _Names(vars(value), self.ignored))
        elif isinstance(value, type):
            if _is_own(getattr(sys.modules.get(value.__module__), "__file__", None)) or value.__module__ == "__main__":
                yield from self._part(f"class {value.__name__}", _OfClass(value))
        elif not _is_torchs(type(value)):
            yield from self._contents(path, value)

    def _contents(self, path: str, value: Any) -> Iterator[tuple[str, Any]]:
        base = container_base(value)
        if base is not None:
            kind = _Dict if issubclass(base, dict) else _Items
            yield from self._part(path, kind(value))
        if (base is None or base is not type(value)) and _has_attributes(value):
            yield from self._part(path, _Attributes(value))
        if base is not type(value) and hasattr(type(value), "__dict__"):
            yield path, type(value)

    def _function(self, path: str, function: types.FunctionType, own: bool) -> Iterator[tuple[str, Any]]:
        if not own and not _is_own(function.__code__.co_filename):
            return
        yield from self._part(path, _Names(vars(function), self.ignored))
        yield from ((f"{path} default {name}", value) for name, value in (function.__kwdefaults__ or {}).items())
        yield from ((f"{path} default {number}", value) for number, value in enumerate(function.__defaults__ or ()))
        if function.__closure__:
            yield from self._part(
                path, _Cells(dict(zip(function.__code__.co_freevars, function.__closure__, strict=True)))
            )
        space = function.__globals__
        if id(space) not in self._seen:
            self._seen[id(space)] = space
            yield from self._part("global", _Names(space, self.ignored))

    def _part(self, path: str, part: _Part) -> Iterator[tuple[str, Any]]:
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


class _Part(ABC):
    """Something whose contents can be put back; `then` is what they were."""

    path = ""
    then: dict[Any, Any]
    ordered = False

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @abstractmethod
    def now(self) -> dict[Any, Any]:
        """Its contents, by name or position."""

    def before(self) -> dict[Any, Any]:
        return self.then

    def put(self, contents: dict[Any, Any], now: dict[Any, Any]) -> None:
        """Exchange its contents `now` for these, as far as possible."""
        for key in now.keys() - contents.keys():
            self.drop(key)
        for key, value in contents.items():
            if now.get(key, _GONE) is not value:
                self.set(key, value)

    def set(self, key: Any, value: Any) -> None:
        self._owner[key] = value

    def drop(self, key: Any) -> None:
        del self._owner[key]

    def step(self, key: Any) -> str:
        return f".{key}" if isinstance(key, str) else f"[{key!r:.60}]"

    def same(self, then: dict[Any, Any], now: dict[Any, Any]) -> bool:
        if len(now) != len(then) or (self.ordered and list(now) != list(then)):
            return False
        return all(_same(value, now.get(key, _GONE)) for key, value in then.items())

    def changes(self, found: Outline, *, copies: bool = True) -> None:
        then, now = self.before(), self.now()
        if self.same(then, now):
            return
        if self.ordered:
            found.values[f"{self.path} keys"] = [str(key)[:100] for key in now]
        for key in {**then, **now}:
            if key not in now:
                found.values[f"{self.path}{self.step(key)}"] = "gone"
            elif not _same(then.get(key, _GONE), now[key]):
                outlined(now[key], f"{self.path}{self.step(key)}", found, copies=copies)

    def restore(self) -> None:
        then, now = self.before(), self.now()
        if not self.same(then, now):
            self.put(then, now)


class _Dict(_Part):
    ordered = True

    def now(self) -> dict[Any, Any]:
        return dict(dict.items(self._owner))

    def put(self, contents: dict[Any, Any], now: dict[Any, Any]) -> None:
        base = container_base(self._owner)
        for key in now:
            base.__delitem__(self._owner, key)
        for key, value in contents.items():
            base.__setitem__(self._owner, key, value)


class _Names(_Dict):
    """The names of a module, or the attributes of a function, without those `ignored` and without modules imported
    since: Python keeps these, and imports none twice.
    """

    ordered = False

    def __init__(self, owner: dict[str, Any], ignored: set[str]) -> None:
        super().__init__(owner)
        self._ignored = ignored

    def now(self) -> dict[Any, Any]:
        every = super().now()
        known = every.keys() | self._ignored
        names = {k: v for k, v in every.items() if k not in self._ignored and not _is_dynamos(k, v, known)}
        then: dict[Any, Any] = getattr(self, "then", names)
        return {k: v for k, v in names.items() if k in then or not isinstance(v, types.ModuleType)}

    def before(self) -> dict[Any, Any]:
        return {key: value for key, value in self.then.items() if key not in self._ignored}


class _Items(_Part):
    """A list, deque, set or tuple."""

    ordered = True

    def now(self) -> dict[Any, Any]:
        base = container_base(self._owner)
        return dict(enumerate(base.__iter__(self._owner)))

    def put(self, contents: dict[Any, Any], now: dict[Any, Any]) -> None:
        base = container_base(self._owner)
        if base in (list, deque, set):
            base.clear(self._owner)
            (base.update if base is set else base.extend)(self._owner, list(contents.values()))


class _Attributes(_Part):
    """The attributes of an object, set and deleted without its class's own methods for that."""

    def __init__(self, owner: Any, without: frozenset[str] = frozenset()) -> None:
        super().__init__(owner)
        self._without = without
        self._slots = {
            slot.__name__: slot
            for kind in type(owner).__mro__ if "__slots__" in vars(kind)
            for slot in vars(kind).values() if isinstance(slot, types.MemberDescriptorType)
        }  # fmt: skip

    def now(self) -> dict[Any, Any]:
        found = {k: v for k, v in getattr(self._owner, "__dict__", {}).items() if k not in self._without}
        for name, slot in self._slots.items():
            with contextlib.suppress(AttributeError):
                found[name] = slot.__get__(self._owner)
        return found

    def set(self, key: Any, value: Any) -> None:
        if key in self._slots:
            self._slots[key].__set__(self._owner, value)
        else:
            self._owner.__dict__[key] = value

    def drop(self, key: Any) -> None:
        self._slots[key].__delete__(self._owner) if key in self._slots else self._owner.__dict__.pop(key, None)


class _OfClass(_Part):
    """What a class holds besides its methods."""

    def now(self) -> dict[Any, Any]:
        return {
            key: value
            for key, value in vars(self._owner).items()
            if not key.startswith("__") and not isinstance(value, (property, types.MemberDescriptorType))
        }

    def set(self, key: Any, value: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            setattr(self._owner, key, value)

    def drop(self, key: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            delattr(self._owner, key)


class _Cells(_Part):
    """The variables that a function closes over, by name."""

    def now(self) -> dict[Any, Any]:
        found = {}
        for name, cell in self._owner.items():
            with contextlib.suppress(ValueError):  # Not filled yet.
                found[name] = cell.cell_contents
        return found

    def set(self, key: Any, value: Any) -> None:
        self._owner[key].cell_contents = value

    def drop(self, key: Any) -> None:
        pass


class _Environment(_Part):
    """The environment variables, except those of torch and of the libraries below it."""

    def now(self) -> dict[Any, Any]:
        return {name: value for name, value in os.environ.items() if not name.startswith(OF_LIBRARIES)}


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


@dataclass
class _Moving:
    """An iterator or random generator with its position. Without `put` it cannot go back."""

    path: str
    value: Any
    position: Callable[[Any], Any]
    put: Callable[[Any, Any], None] | None = None
    start: Any = None

    def __post_init__(self) -> None:
        self.start = self.position(self.value)


def _moving(path: str, value: Any) -> _Moving | None:
    if isinstance(value, torch.Generator):
        return _Moving(
            path, value, lambda each: each.get_state().numpy().tobytes(),
            lambda each, state: each.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8)),
        )  # fmt: skip
    if isinstance(value, random.Random):
        return _Moving(path, value, lambda each: each.getstate(), lambda each, state: each.setstate(state))
    if isinstance(value, types.GeneratorType):
        return _Moving(path, value, _of_generator)
    if isinstance(value, io.IOBase):
        return _Moving(path, value, _of_file)
    if isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        put = (lambda each, state: each.__setstate__(state[-1])) if hasattr(value, "__setstate__") else None
        return _Moving(path, value, _of_iterator, put)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype != object:
        return _Moving(path, value, _of_array, _put_array)
    numpy_random = sys.modules.get("numpy.random")
    if isinstance(value, getattr(numpy_random, "Generator", ())):
        return _Moving(
            path, value, lambda each: pickle.dumps(each.bit_generator.state),
            lambda each, state: setattr(each.bit_generator, "state", pickle.loads(state)),
        )  # fmt: skip
    if isinstance(value, getattr(numpy_random, "RandomState", ())):
        return _Moving(
            path, value, lambda each: pickle.dumps(each.get_state()),
            lambda each, state: each.set_state(pickle.loads(state)),
        )  # fmt: skip
    return None


def _of_generator(generator: types.GeneratorType[Any, Any, Any]) -> Any:
    frame = generator.gi_frame
    if frame is None:
        return None
    return frame.f_lasti, [repr(value) for value in frame.f_locals.values() if isinstance(value, SCALARS)]


def _of_file(file: Any) -> int:
    with contextlib.suppress(Exception):
        return int(file.tell())
    return 0


def _of_iterator(iterator: Any) -> Any:
    try:
        _, given, *state = iterator.__reduce__()
    except Exception:
        return None
    return [each for each in (*given, *state) if isinstance(each, SCALARS)]


def _of_array(array: Any) -> tuple[Any, Any]:
    """Its contents and mask, read below its class (numpy.ma.masked fails otherwise)."""
    numpy = sys.modules["numpy"]
    masked = numpy.ma.getmaskarray(array).tobytes() if numpy.ma.isMaskedArray(array) else None
    return numpy.asarray(array).tobytes(), masked


def _put_array(array: Any, state: tuple[bytes, bytes | None]) -> None:
    numpy = sys.modules["numpy"]
    held, masked = state
    if array.flags.writeable:
        numpy.asarray(array)[...] = numpy.frombuffer(held, dtype=array.dtype).reshape(array.shape)
        if masked is not None:
            array.mask = numpy.frombuffer(masked, dtype=bool).reshape(array.shape)


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


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, SCALARS) and repr(one) == repr(other)


def _is_dynamos(name: str, value: Any, scope: Collection[str]) -> bool:
    """Whether Dynamo put it among globals: the result of a constant function `name` is called the same, with a number,
    and `sub_name` for a function `_name`.
    """
    function = name.removeprefix("sub")
    names = (function, re.sub(r"_\d+$", "", function))
    if _OF_DYNAMO.match(name) or (name != function and any(each in scope for each in names)):
        return True
    return type(value) in SCALARS and not constant_functions().isdisjoint(names)


def _has_attributes(value: Any) -> bool:
    """Whether it is a plain object, or could become one: no attribute has been set yet."""
    kind = type(value)
    if is_plain_object(value):
        return True
    is_made_by_python = bool(kind.__flags__ & _HEAP_TYPE) and hasattr(value, "__dict__") and not callable(value)
    return is_made_by_python and kind.__module__.partition(".")[0] not in sys.stdlib_module_names


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _is_own(file: str | None) -> bool:
    """Whether a file is the user's, not an installed one."""
    return bool(file) and not is_installed(str(file))
