"""Nested Python values (containers, dataclasses, caches, plain objects): walk, copy and compare them, find modules."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import sys
import types
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import Enum
from typing import Any, TypeVar

import torch

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...), range, slice})
# Subclasses before their bases: the first that fits tells how to make an empty one.
_BASES: tuple[Any, ...] = (OrderedDict, defaultdict, dict, list, deque, set, frozenset, tuple)
_EXACT = frozenset(_BASES)
_COPIED_FROM_STDLIB = (types.SimpleNamespace, argparse.Namespace, UserDict, UserList)
_CHANGING = frozenset({"_io", "_thread", "threading", "queue", "_queue", "multiprocessing", "socket", "asyncio"})
_MOST_VALUES = 200_000
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement.
Signature = tuple[Any, ...]
Kind = TypeVar("Kind")
_LONGEST_TEXT = 400
_SCALARS = (bool, int, float, complex, str, bytes)
_MOST_SEARCHED = 5000


class NotCopied(Exception):
    """The value holds more objects than are worth copying, or one that must not be."""


class Copier:
    """Copies one nested value, keeping identities (aliases and cycles) and what must not be copied as it is.

    `leaf` is asked first for every value that is not a number or a string; NotImplemented leaves it to the copier.
    """

    def __init__(self, leaf: Callable[[Any], Any]) -> None:
        self._leaf = leaf
        self._memo: dict[int, Any] = {}
        self.referenced: set[str] = set()

    def copy(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            return value
        if id(value) in self._memo:
            return self._memo[id(value)]
        if len(self._memo) > _MOST_VALUES:
            raise NotCopied(f"more than {_MOST_VALUES:,} objects")
        made = NotImplemented if type(value) in _EXACT else self._leaf(value)
        if made is NotImplemented:
            made = self._build(value)
        self._memo[id(value)] = made
        return made

    def _build(self, value: Any) -> Any:
        base = container_base(value)
        if base is tuple:
            return self._tuple(value)
        if base is frozenset:
            return frozenset.__new__(type(value), map(self.copy, value))
        if base is not None:
            return self._container(value, base)
        if is_plain_object(value):
            if has_finalizer(value):
                raise NotCopied(f"{type(value).__name__} has a __del__, which a copy would run too")
            try:
                made = object.__new__(type(value))
            except TypeError:
                return value
            self._memo[id(value)] = made
            return self._fill(value, made)
        # Generators, files, locks and the like: kept by reference, they are not later what they were.
        if isinstance(value, (Iterator, Awaitable)) or type(value).__module__.partition(".")[0] in _CHANGING:
            self.referenced.add(type(value).__name__)
        return value

    def _tuple(self, value: Any) -> Any:
        items = [self.copy(item) for item in tuple.__iter__(value)]
        if type(value) is tuple:
            return self._memo.get(id(value), tuple(items))  # It is there already where it holds itself.
        if id(value) in self._memo:
            return self._memo[id(value)]
        try:
            made = tuple.__new__(type(value), items)
        except TypeError:  # A struct sequence, as torch.return_types.max.
            return type(value)(items)
        return self._fill(value, made)

    def _container(self, value: Any, base: Any) -> Any:
        made = self._memo[id(value)] = base.__new__(type(value))
        if issubclass(base, dict):
            if base is defaultdict:
                made.default_factory = value.default_factory
            for key, item in base.items(value):
                base.__setitem__(made, self.copy(key), self.copy(item))
        elif base is set:
            set.update(made, map(self.copy, set.__iter__(value)))
        else:
            if base is deque:
                deque.__init__(made, (), value.maxlen)
            base.extend(made, [self.copy(item) for item in base.__iter__(value)])
        return self._fill(value, made)

    def _fill(self, value: Any, made: Any) -> Any:
        """Copy the attributes directly: no constructor, property or __setattr__ of the program runs."""
        if type(value) in _EXACT:
            return made
        for name, item in _instance_dict(value).items():
            made.__dict__[name] = self.copy(item)
        for slot, item in _slots(value):
            slot.__set__(made, self.copy(item))
        return made


def container_base(value: Any) -> Any:
    """The built-in container that the value is, or None."""
    if type(value) in _EXACT:
        return type(value)
    return next((base for base in _BASES if isinstance(value, base)), None)


def has_finalizer(value: Any) -> bool:
    """Whether the user's code runs as the last reference to it goes: that is neither to come early nor late."""
    owner = next((kind for kind in type(value).__mro__ if "__del__" in vars(kind)), None)
    return owner is not None and owner.__module__.partition(".")[0] not in ("torch", *sys.stdlib_module_names)


def is_plain_object(value: Any) -> bool:
    """Whether the value is an instance of a class written in Python whose state is its attributes."""
    kind = type(value)
    if isinstance(value, (type, Enum, int, float, complex, str, bytes, bytearray)):
        return False
    if isinstance(value, _COPIED_FROM_STDLIB):
        return True
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names:
        return False
    return bool(kind.__flags__ & _HEAP_TYPE) and (bool(_instance_dict(value)) or any(True for _ in _slots(value)))


def children(value: Any) -> Iterator[tuple[Any, Any]]:
    """What a container or plain object holds, with the names or positions; nothing for other values."""
    base = container_base(value)
    if base is None:
        if not is_plain_object(value):
            return
    elif issubclass(base, dict):
        yield from base.items(value)
    else:
        yield from enumerate(base.__iter__(value))
    if base is type(value):
        return
    yield from _instance_dict(value).items()
    for slot, item in _slots(value):
        yield slot.__name__, item


def leaves(value: Any, objects: bool) -> Iterator[Any]:
    """All values that hold no others, each once; plain objects are opened only if asked for, dataclasses always."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if type(current) in _ATOMS or id(current) in seen:
            continue
        seen.add(id(current))
        opened = objects or dataclasses.is_dataclass(current) or container_base(current) is not None
        held = [item for _, item in children(current)] if opened else []
        if held:
            waiting.extend(reversed(held))
        else:
            yield current


def _instance_dict(value: Any) -> dict[str, Any]:
    state = getattr(value, "__dict__", None)
    return state if type(state) is dict else {}


def _slots(value: Any) -> Iterator[tuple[types.MemberDescriptorType, Any]]:
    for kind in type(value).__mro__:
        if "__slots__" not in vars(kind):
            continue
        for slot in vars(kind).values():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield slot, slot.__get__(value)
                except AttributeError:
                    continue


def sign(value: Any, seen: dict[int, int] | None = None) -> Signature:
    """The signature of a nested value.

    A tensor counts with its type, shape, strides, dtype, device and requires_grad, never with its values. The stride
    of a dimension of size 1 says nothing and is left out. Numbers, strings and None count with their value, objects
    with their class and attributes (so a cache counts with the lengths of what it holds), functions and modules by
    identity, and a value `seen` before as that one.
    """
    seen = {} if seen is None else seen
    if value is None:
        return ("none",)
    if isinstance(value, _SCALARS):
        # By text, because 1, 1.0 and True are equal and NaN is not; strings and ints compare well as they are.
        exact = value if isinstance(value, (int, str, bytes)) else repr(value)
        return ("value", type(value).__name__, exact)
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, torch.Tensor):
        return _sign_tensor(value)
    if isinstance(value, torch.nn.Module):
        return ("same", type(value).__name__, id(value))
    given: Iterable[tuple[Any, Any]] = children(value)
    if container_base(value) is None:  # Attributes have no order, and compiled code sets some to what the class says.
        given = sorted((each for each in given if not _says_class(type(value), *each)), key=lambda each: str(each[0]))
    held = tuple((_key(name), sign(item, seen)) for name, item in given)
    if held or isinstance(value, (tuple, list, dict, set, frozenset)):
        return ("holds", type(value).__name__, held)
    return ("same", type(value).__name__, _identity(value))


def _says_class(kind: type, name: str, item: Any) -> bool:
    """Whether an object without this attribute would have it all the same."""
    owner = next((each for each in kind.__mro__ if name in vars(each)), None)
    return owner is not None and vars(owner)[name] is item


def _sign_tensor(tensor: torch.Tensor) -> Signature:
    shape: Any
    strides: Any
    if type(tensor) is torch.Tensor and tensor.layout is torch.strided:
        shape = tuple(tensor.shape)
        strides = tuple(step for n, step in zip(shape, tensor.stride(), strict=True) if n != 1)
    else:  # Ragged sizes of nested tensors are symbols that cannot be hashed.
        shape, strides = str(tensor.shape), str(tensor.layout)
    return ("tensor", type(tensor).__name__, shape, strides, tensor.dtype, tensor.device, tensor.requires_grad)


def _key(name: Any) -> Any:
    return name if isinstance(name, (str, int, float, bool, bytes, type(None))) else type(name).__name__


def _identity(value: Any) -> Any:
    """Functions count by identity, dtypes, enums and other fixed values by what they are, the rest by class only."""
    if isinstance(value, (torch.dtype, torch.device, Enum)):
        return str(value)
    if callable(value):
        return id(value)
    equality: Any = type(value).__eq__
    try:
        return None if equality is object.__eq__ else hash(value)
    except TypeError:
        return None


def describe_call(arguments: Signature) -> str:
    """The signature of an (args, kwargs) pair for people, as `(Tensor[2, 16] int64, use_cache=True)`.

    Strings show only their length: they may be prompts or tokens.
    """
    _, _, ((_, args), (_, kwargs)) = arguments
    parts = [_describe(item) for _, item in args[2]]
    parts += [f"{name}={_describe(item)}" for name, item in kwargs[2]]
    text = f"({', '.join(parts)})"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


def _describe(node: Signature) -> str:
    tag, *rest = node
    if tag == "none":
        return "None"
    if tag == "value":
        kind, value = rest
        return f"{kind} of length {len(value)}" if kind in ("str", "bytes") else str(value)
    if tag == "tensor":
        kind, shape, _, dtype, device, requires_grad = rest
        size = list(shape) if isinstance(shape, tuple) else shape
        place = "" if device.type == "cpu" else f" on {device}"
        return f"{kind}{size} {str(dtype).removeprefix('torch.')}{place}{' with grad' if requires_grad else ''}"
    if tag != "holds":
        return "the same again" if tag == "again" else str(rest[0])
    kind, held = rest
    if kind in ("tuple", "list", "set", "frozenset"):
        inner = ", ".join(_describe(item) for _, item in held)
        return f"[{inner}]" if kind == "list" else f"({inner})"
    inner = ", ".join(f"{name}={_describe(item)}" for name, item in held)
    return f"{{{inner}}}" if kind == "dict" else f"{kind}({inner})"


def reachable_modules(value: Any) -> list[torch.nn.Module]:
    """The outermost modules below a value, each once, in the order in which they are met."""
    return reachable(value, torch.nn.Module)


def reachable(value: Any, kind: type[Kind]) -> list[Kind]:
    """The outermost objects of a kind below a value, each once, in the order in which they are met."""
    found: dict[int, Kind] = {}
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MOST_SEARCHED:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, kind):
            found[id(current)] = current
        else:
            waiting.extend(reversed(list(_held_by(current))))
    return list(found.values())


def _held_by(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, type, types.ModuleType)):
        return
    if isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif not isinstance(value, types.FunctionType):
        yield from (item for _, item in children(value))
    elif value.__module__.partition(".")[0] != "torch":
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # Not filled yet.
                yield cell.cell_contents
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield from (value.__globals__[name] for name in sorted(_names_in(value.__code__)) if name in value.__globals__)


def _names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that a piece of code uses, nested functions included."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names
