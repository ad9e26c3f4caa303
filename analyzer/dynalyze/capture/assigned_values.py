"""What a program sets in its modules between two calls: numbers, texts and flags, as `net.scale = 2.0`.

A call made again later would meet the values of the end. What the calls themselves change, as a counter, goes on by
itself when they are made again, so the two are told apart: the values at the end of a call are held to those at the
beginning of the next. Where modules, parameters or tensors were exchanged at the same time, as for deployment, a value
goes with these, which nobody puts back, and neither does it.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_MOST_LOOKS = 100
"""Calls that are looked at, from the last change on: at 400 modules a look takes a millisecond."""

_SCALARS = frozenset({bool, int, float, str, type(None), torch.dtype})
_SCHEDULED = torch.nn.modules.dropout._DropoutNd
_GONE = object()


@dataclass(slots=True)
class SetValues:
    """The plain values of one module when a call began. Of these the program gave other values, between two calls, to
    those in `assigned`, a set that all calls share.
    """

    plain: dict[str, Any] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)

    def restore(self, part: torch.nn.Module, *, every: bool) -> None:
        """Set them again: those that the program assigned, or `every` one."""
        for name in self.plain if every else self.assigned:
            if name in self.plain:
                vars(part)[name] = self.plain[name]
            elif _is_plain(getattr(type(part), name, _GONE)):  # It had its class's value.
                vars(part).pop(name, None)


@dataclass(slots=True)
class _Look:
    """A module as it was: its plain values, its tensors by name, its parts and parameters, all by identity."""

    part: weakref.ref[torch.nn.Module]
    plain: dict[str, Any]
    tensors: dict[str, int]
    built: tuple[int, ...]

    def rebuilt_since(self, before: _Look) -> bool:
        """Whether something else than plain values was exchanged."""
        changed = any(before.tensors.get(name) != tensor for name, tensor in self.tensors.items())
        return changed or self.built != before.built or not before.tensors.keys() <= {*self.tensors, *self.plain}


class AssignedValues:
    """Looks at the modules of recorded calls where one begins and where it has ended."""

    def __init__(self) -> None:
        self._looks_left = _MOST_LOOKS
        self._left: dict[int, _Look] = {}
        """Modules at the end of the last call, by identity."""
        self._assigned: dict[int, set[str]] = {}
        self._exchanged: dict[int, set[str]] = {}
        """Names whose values changed together with parts of a model."""
        self._names: dict[int, tuple[int, list[str]]] = {}
        """The names of a module that are worth a look, with the number of its attributes then."""

    def begin(self, parts: Sequence[torch.nn.Module]) -> list[SetValues]:
        """The values of modules at the beginning of a call."""
        if self._looks_left < 0:
            return [SetValues() for _ in parts]
        looks = list(map(self._look, parts))
        # Until the call has ended, nobody knows whose change one is.
        self._compare(looks, [self._left.pop(id(part), None) for part in parts])
        return [
            SetValues(look.plain, self._assigned.setdefault(id(part), set()))
            for part, look in zip(parts, looks, strict=True)
        ]

    def ended(self, parts: Iterable[torch.nn.Module]) -> None:
        """Note what a call left behind: what is different later, the program changed."""
        self._looks_left -= 1
        if self._looks_left >= 0:
            self._left.update({id(part): self._look(part) for part in parts})

    def missed(self) -> None:
        """Note a call at which nobody looked."""
        self._left.clear()

    def settle(self) -> None:
        """Note what the program changed after its last call."""
        left = [(part, each) for each in self._left.values() if (part := each.part()) is not None]
        self._left.clear()
        self._compare([self._look(part) for part, _ in left], [each for _, each in left])

    def forget_but(self, there: set[int]) -> None:
        """Keep what is known of these modules alone."""
        for known in (self._left, self._assigned, self._exchanged, self._names):
            for token in known.keys() - there:
                del known[token]

    def _compare(self, looks: Sequence[_Look], before: Sequence[_Look | None]) -> None:
        pairs = [(now, then) for now, then in zip(looks, before, strict=True) if then is not None]
        rebuilt = any(now.rebuilt_since(then) for now, then in pairs)
        for now, then in pairs:
            if now.plain == then.plain or (part := now.part()) is None:
                continue
            kind, token = type(part), id(part)
            changed = {
                name for name, value in now.plain.items()
                if value != then.plain.get(name, getattr(kind, name, _GONE))
            }  # fmt: skip
            changed |= {name for name in then.plain if name not in now.plain}
            exchanged = self._exchanged.setdefault(token, set())
            exchanged |= changed if rebuilt else set()
            assigned = self._assigned.setdefault(token, set())
            assigned |= changed
            assigned -= exchanged
            self._looks_left = _MOST_LOOKS  # Who does so once may do so again.

    def _look(self, part: torch.nn.Module) -> _Look:
        held, known = vars(part), self._names.get(id(part))
        if known is None or known[0] != len(held):
            # torch's own modules are made once; a rate of dropout may follow a schedule.
            own = not type(part).__module__.startswith("torch.") or isinstance(part, _SCHEDULED)
            names = [name for name, value in held.items() if own and _is_watched(value) and name != "training"]
            known = self._names[id(part)] = len(held), names
        values = {name: held[name] for name in known[1] if name in held}
        plain = {name: value for name, value in values.items() if _is_plain(value)}
        tensors = {name: id(value) for name, value in values.items() if isinstance(value, torch.Tensor)}
        built = *map(id, part._modules.values()), *map(id, part._parameters.values())
        return _Look(weakref.ref(part), plain, tensors, built)


def _is_plain(value: Any) -> bool:
    return type(value) in _SCALARS or isinstance(value, enum.Enum)


def _is_watched(value: Any) -> bool:
    return _is_plain(value) or isinstance(value, torch.Tensor)
