"""What holds the program's state, part by part: containers, names, attributes, closures. Each can be compared with what
it was, and put back.
"""

from __future__ import annotations

import contextlib
import os
import re
import types
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Collection
from typing import Any

from dynalyze.capture.fixing.watching import SCALARS, Outline, outlined
from dynalyze.capture.inspecting.settings import OF_LIBRARIES
from dynalyze.capture.nested_values import container_base
from dynalyze.capture.torch_private.dynamo import constant_functions

GONE = object()
"""Stands for a value that is not there."""
_OF_DYNAMO = re.compile(r"__(?!\w+__$)|sub_\d|\w*_\d{6,}_c\d")
"""Globals that Dynamo put there for code that it made."""
_OF_PYTHON = re.compile(
    r"__(?:name|doc|package|loader|spec|file|path|cached|builtins|all|warningregistry|(?:conditional_)?annotations|annotate)__$"
)
"""Globals that Python itself gives a module."""


class Part(ABC):
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
            if now.get(key, GONE) is not value:
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
        return all(same_value(value, now.get(key, GONE)) for key, value in then.items())

    def changes(self, found: Outline, *, copies: bool = True) -> None:
        then, now = self.before(), self.now()
        if self.same(then, now):
            return
        if self.ordered:
            found.values[f"{self.path} keys"] = [str(key)[:100] for key in now]
        for key in {**then, **now}:
            if key not in now:
                found.values[f"{self.path}{self.step(key)}"] = "gone"
            elif not same_value(then.get(key, GONE), now[key]):
                outlined(now[key], f"{self.path}{self.step(key)}", found, copies=copies)

    def restore(self) -> None:
        then, now = self.before(), self.now()
        if not self.same(then, now):
            self.put(then, now)


class DictPart(Part):
    ordered = True

    def now(self) -> dict[Any, Any]:
        return dict(dict.items(self._owner))

    def put(self, contents: dict[Any, Any], now: dict[Any, Any]) -> None:
        base = container_base(self._owner)
        for key in now:
            base.__delitem__(self._owner, key)
        for key, value in contents.items():
            base.__setitem__(self._owner, key, value)


class NamesPart(DictPart):
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


class ItemsPart(Part):
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


class AttributesPart(Part):
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


class ClassPart(Part):
    """What a class holds besides its methods, without the members `ignored`."""

    def __init__(self, owner: type, ignored: set[tuple[type, str]]) -> None:
        super().__init__(owner)
        self._ignored = ignored

    def now(self) -> dict[Any, Any]:
        return {
            key: value
            for key, value in vars(self._owner).items()
            if not key.startswith("__")
            and not isinstance(value, (property, types.MemberDescriptorType))
            and (self._owner, key) not in self._ignored
        }

    def set(self, key: Any, value: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            setattr(self._owner, key, value)

    def drop(self, key: Any) -> None:
        with contextlib.suppress(AttributeError, TypeError):
            delattr(self._owner, key)


class CellsPart(Part):
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


class TensorPart(Part):
    """The attributes that a tensor has beside its values."""

    def now(self) -> dict[Any, Any]:
        return {key: each for key, each in self._owner.__dict__.items() if not key.startswith("_dynamo")}

    def set(self, key: Any, value: Any) -> None:
        self._owner.__dict__[key] = value

    def drop(self, key: Any) -> None:
        self._owner.__dict__.pop(key, None)


class WeakPart(Part):
    """How many objects of each class a set or a dictionary of weak references has: nothing else of one is the same in
    another run.
    """

    def __init__(self, owner: Any) -> None:
        super().__init__(owner)
        self._copy = owner.copy()

    def now(self) -> dict[Any, Any]:
        return dict(Counter(type(each).__qualname__ for each in list(self._owner)))

    def put(self, contents: dict[Any, Any], now: dict[Any, Any]) -> None:
        self._owner.clear()
        self._owner.update(self._copy)


class VariablePart(Part):
    """A context variable, as the calling thread sees it."""

    def now(self) -> dict[Any, Any]:
        try:
            return {"value": self._owner.get()}
        except LookupError:
            return {}

    def set(self, key: Any, value: Any) -> None:
        self._owner.set(value)

    def drop(self, key: Any) -> None:
        pass


class EnvironmentPart(Part):
    """The environment variables, except those of torch and of the libraries below it."""

    def now(self) -> dict[Any, Any]:
        return {name: value for name, value in os.environ.items() if not name.startswith(OF_LIBRARIES)}


def same_value(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, SCALARS) and repr(one) == repr(other)


def _is_dynamos(name: str, value: Any, scope: Collection[str]) -> bool:
    """Whether Dynamo put it among globals: the result of a constant function `name` is called the same, with a number,
    and `sub_name` for a function `_name`.
    """
    function = name.removeprefix("sub")
    names = (function, re.sub(r"_\d+$", "", function))
    if _OF_PYTHON.match(name) or _OF_DYNAMO.match(name) or (name != function and any(each in scope for each in names)):
        return True
    return type(value) in SCALARS and not constant_functions().isdisjoint(names)
