"""What a program sets in its modules between two calls: numbers, texts and flags, as `net.scale = 2.0`.

A call made again later would meet the values of the end. What the calls themselves change, as a counter, goes on by
itself when they are made again, so the two are told apart: the values at the end of a call are held to those at the
beginning of the next. Where modules, parameters or tensors were exchanged at the same time, as for deployment, a value
goes with these, which nobody puts back, and neither does it.

The plain objects that a module holds, as its `config`, are looked at like the module.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.nested_values import is_plain_object

_MOST_LOOKS = 100
"""Calls that are looked at, from the last change on: at 400 modules a look takes a millisecond."""

_SCALARS = frozenset({bool, int, float, str, type(None), torch.dtype})
_SCHEDULED = torch.nn.modules.dropout._DropoutNd
_REGISTERED = ("_parameters", "_buffers", "_modules")
_GONE = object()


@dataclass(slots=True)
class SetValues:
    """The plain values of a module, or of an object that it holds, when a call began. Of these the program gave other
    values, between two calls, to those in `assigned`, a set that all calls share. `held` are those of the objects that
    it holds, by attribute.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    held: dict[str, SetValues] = field(default_factory=dict)

    def restore(self, holder: Any, *, every: bool = False) -> None:
        """Set them again: those that the program assigned, or `every` one of the module's own."""
        own = vars(holder)
        for name in self.plain if every else self.assigned:
            if any(name in own.get(kind, ()) for kind in _REGISTERED):
                continue  # Another kind of thing has the name now.
            if name in self.plain:
                own[name] = self.plain[name]
            elif is_plain_value(getattr(type(holder), name, _GONE)):  # It had its class's value.
                own.pop(name, None)
        for name, values in self.held.items():
            if is_plain_object(found := own.get(name)) and hasattr(found, "__dict__"):
                values.restore(found)


@dataclass(slots=True)
class _HolderLook:
    """A module or object as it was: its plain values, its tensors by name, its parts and parameters by name and
    identity.
    """

    holder: weakref.ref[Any]
    plain: dict[str, Any]
    tensors: dict[str, int]
    built: tuple[Any, ...]

    def rebuilt_since(self, before: _HolderLook) -> bool:
        """Whether something else than plain values was exchanged."""
        changed = any(before.tensors.get(name) != tensor for name, tensor in self.tensors.items())
        return changed or self.built != before.built or not before.tensors.keys() <= {*self.tensors, *self.plain}


class AssignedValues:
    """Looks at the modules of recorded calls where one begins and where it has ended."""

    def __init__(self) -> None:
        self.changed = False
        """Whether the program set something before the call that began last."""
        self._looks_left = _MOST_LOOKS
        self._left: dict[int, _HolderLook] = {}
        """Modules and objects at the end of the last call, by identity."""
        self._assigned: dict[int, set[str]] = {}
        self._exchanged: dict[int, set[str]] = {}
        """Names whose values changed together with parts of a model."""
        self._names: dict[int, tuple[int, list[str], list[str]]] = {}
        """Of a module, with the number of its attributes then: names that are worth a look, and those of objects."""

    def begin(self, parts: Sequence[torch.nn.Module]) -> list[SetValues]:
        """The values of modules at the beginning of a call."""
        self.changed = False
        if self._looks_left < 0:
            return [SetValues() for _ in parts]
        looks = {id(each): self._look(each) for each in self._with_objects(parts)}
        # Until the call has ended, nobody knows whose change one is.
        self._compare(looks.values(), [self._left.pop(token, None) for token in looks])
        found = {token: SetValues(look.plain, self._assigned_of(token)) for token, look in looks.items()}
        for part in parts:
            own = found[id(part)]
            own.held = {name: found[id(each)] for name, each in self._objects(part) if found[id(each)].plain}
        return [found[id(part)] for part in parts]

    def ended(self, parts: Iterable[torch.nn.Module]) -> None:
        """Note what a call left behind: what is different later, the program changed."""
        self._looks_left -= 1
        if self._looks_left >= 0:
            self._left.update({id(each): self._look(each) for each in self._with_objects(parts)})

    def missed(self) -> None:
        """Note a call at which nobody looked."""
        self._left.clear()

    def settle(self) -> None:
        """Note what the program changed after its last call."""
        left = [(holder, each) for each in self._left.values() if (holder := each.holder()) is not None]
        self._left.clear()
        self._compare([self._look(holder) for holder, _ in left], [each for _, each in left])

    def _assigned_of(self, token: int) -> set[str]:
        return self._assigned.setdefault(token, set())

    def _compare(self, looks: Iterable[_HolderLook], before: Sequence[_HolderLook | None]) -> None:
        pairs = [(now, then) for now, then in zip(looks, before, strict=True) if then is not None]
        rebuilt = any(now.rebuilt_since(then) for now, then in pairs)
        for now, then in pairs:
            if now.plain == then.plain or (holder := now.holder()) is None or holder is not then.holder():
                continue
            kind, token = type(holder), id(holder)
            names = now.plain.keys() | then.plain.keys()
            changed = {name for name in names if _value(now, name, kind) != _value(then, name, kind)}
            exchanged = self._exchanged.setdefault(token, set())
            exchanged |= changed if rebuilt else set()
            assigned = self._assigned_of(token)
            assigned |= changed
            assigned -= exchanged
            self._looks_left, self.changed = _MOST_LOOKS, True  # Who does so once may do so again.

    def _look(self, holder: Any) -> _HolderLook:
        held = vars(holder)
        values = {name: held[name] for name in self._names_of(holder)[1] if name in held}
        plain = {name: value for name, value in values.items() if is_plain_value(value)}
        tensors = {name: id(value) for name, value in values.items() if isinstance(value, torch.Tensor)}
        built: tuple[Any, ...] = ()
        if isinstance(holder, torch.nn.Module):
            parts = holder._modules, holder._parameters
            built = tuple(each for own in parts for each in (*own, *map(id, own.values())))
        return _HolderLook(weakref.ref(holder), plain, tensors, built)

    def _names_of(self, holder: Any) -> tuple[int, list[str], list[str]]:
        held, known = vars(holder), self._names.get(id(holder))
        if known is None or known[0] != len(held):
            is_module = isinstance(holder, torch.nn.Module)
            # torch's own modules are made once; a rate of dropout may follow a schedule.
            own = not type(holder).__module__.startswith("torch.") or isinstance(holder, _SCHEDULED)
            named = list(held.items()) if own else []
            names = [name for name, value in named if _is_watched(value) and name != "training"]
            objects = [name for name, value in named if is_module and _is_object(value)]
            known = self._names[id(holder)] = len(held), names, objects
        return known

    def _objects(self, part: torch.nn.Module) -> Iterator[tuple[str, Any]]:
        held = vars(part)
        yield from ((name, held[name]) for name in self._names_of(part)[2] if _is_object(held.get(name)))

    def _with_objects(self, parts: Iterable[torch.nn.Module]) -> list[Any]:
        """The modules and what they hold, once each: a configuration is that of all layers."""
        found: dict[int, Any] = {}
        for part in parts:
            found[id(part)] = part
            found |= {id(each): each for _, each in self._objects(part)}
        return list(found.values())


def _value(look: _HolderLook, name: str, kind: type) -> Any:
    return look.plain.get(name, getattr(kind, name, _GONE))


def is_plain_value(value: Any) -> bool:
    """Whether it is a number, text, flag, dtype or member of an enumeration."""
    return type(value) in _SCALARS or isinstance(value, enum.Enum)


def _is_watched(value: Any) -> bool:
    return is_plain_value(value) or isinstance(value, torch.Tensor)


def _is_object(value: Any) -> bool:
    return hasattr(value, "__dict__") and hasattr(type(value), "__weakref__") and is_plain_object(value)
