"""Copying and walking nested Python values: containers, dataclasses, caches and other plain objects."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import types
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import Any

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...), range, slice})
# Subclasses before their bases: the first that fits tells how to make an empty one.
_BASES: tuple[Any, ...] = (OrderedDict, defaultdict, dict, list, deque, set, frozenset, tuple)
_EXACT = frozenset(_BASES)
_COPIED_FROM_STDLIB = (types.SimpleNamespace, argparse.Namespace, UserDict, UserList)
_CHANGING = frozenset({"_io", "_thread", "threading", "queue", "_queue", "multiprocessing", "socket", "asyncio"})
_MOST_VALUES = 200_000


class TooLarge(Exception):
    """The value holds more objects than are worth copying."""


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
            raise TooLarge(f"more than {_MOST_VALUES:,} objects")
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
            return self._object(value)
        if _changes_by_use(value):
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

    def _object(self, value: Any) -> Any:
        try:
            made = object.__new__(type(value))
        except TypeError:
            return value
        self._memo[id(value)] = made
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


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement.


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


def _changes_by_use(value: Any) -> bool:
    """Generators, files, locks and the like: kept by reference, they are not later what they were."""
    return isinstance(value, (Iterator, Awaitable)) or type(value).__module__.partition(".")[0] in _CHANGING
