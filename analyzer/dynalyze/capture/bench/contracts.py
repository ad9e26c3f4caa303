"""What a call keeps beside its values, and compiling must keep too: the contracts of docs/explanation/accuracy.md."""

from __future__ import annotations

import contextlib
import functools
import math
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from dynalyze.capture.call_context import version_of
from dynalyze.capture.nested_values import Signature, sign
from dynalyze.capture.torch_private import compiled_calls

_LONGEST = 60
_NEAR, _LEAST = 1e-2, 1e-6
_MOST_SEEN, _MOST_HELD = 2000, 1000
_PLAIN = (bool, int, float, str)
_OF_MODULES = frozenset(vars(torch.nn.Module()))


class Broken(NamedTuple):
    """One contract that compiled breaks, with what eager and compiled do in words."""

    contract: str
    place: str
    eager: str
    compiled: str

    def __str__(self) -> str:
        return f"{self.place} {self.compiled} in compiled, {self.eager} in eager"


@dataclass
class Promises:
    """What a pass kept, by call: the forms of what came out and of the arguments after it, and who shares memory.

    `changed` is what the whole pass changed of `kept_state`, `written` the tensors among that; `left` are the numbers
    and texts that are others after it.
    """

    forms: dict[str, Signature] = field(default_factory=dict)
    shared: dict[str, frozenset[frozenset[str]]] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    left: dict[str, Any] = field(default_factory=dict)

    def note_state(self, before: dict[str, Signature], after: dict[str, Signature]) -> None:
        """Once the pass is over: what `kept_state` was and is."""
        self.changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
        both = ((place, before.get(place) or ("",), after.get(place) or ("",)) for place in self.changed)
        self.written = {place for place, was, now in both if was[:2] == now[:2] and now[0] == "tensor"}

    def note(
        self,
        call: str,
        outputs: Any,
        arguments: Any,
        given: Mapping[str, torch.Tensor],
        made: Mapping[str, torch.Tensor],
    ) -> None:
        """Once a call has returned; `given` and `made` are the tensors that went in and came out, by name."""
        with compiled_calls.unobserved():
            self.forms[f"{call}output"] = sign(outputs)
            self.forms[f"{call}arguments"] = sign(arguments)
            self.shared[call] = frozenset(sharing({**given, **made}.items()))
            self.strides |= {f"{call}{name}": _steps(tensor) for name, tensor in made.items()}


def broken(eager: Promises, again: Promises, compiled: Promises) -> list[Broken]:
    """What compiled does otherwise than eager; what eager does otherwise the second time is no promise."""
    found: dict[Broken, None] = {}
    for place in eager.forms.keys() & again.forms.keys() & compiled.forms.keys():
        own = {each[:2] for each in _unlike(eager.forms[place], again.forms[place], place)}
        differing = _unlike(eager.forms[place], compiled.forms[place], place)
        found |= {each: None for each in differing if each[:2] not in own}
    for call in eager.shared.keys() & compiled.shared.keys():
        if eager.shared[call] == again.shared.get(call):
            found |= dict.fromkeys(_otherwise_shared(eager.shared[call], compiled.shared[call]))
    for place in eager.strides.keys() & compiled.strides.keys():
        mine, theirs = eager.strides[place], compiled.strides[place]
        if len(mine) == len(theirs) and mine != theirs and mine == again.strides.get(place):
            found[Broken("stride", place, f"has stride {mine}", f"has stride {theirs}")] = None
    # What eager changes each time and compiled does not. The other way round tensors alone tell: others may be its own.
    lost = (eager.changed & again.changed) - compiled.changed
    made = compiled.written - eager.changed - again.changed
    return [
        *found,
        *_left_otherwise(eager.left, again.left, compiled.left, lacking=not lost),
        *(Broken("side effect", place, "is changed", "is left as it was") for place in sorted(lost)),
        *(Broken("side effect", place, "counts no write", "counts a write") for place in sorted(made)),
    ]


def _left_otherwise(
    eager: Mapping[str, Any], again: Mapping[str, Any], compiled: Mapping[str, Any], *, lacking: bool
) -> Iterator[Broken]:
    """What eager leaves behind each time and compiled otherwise; what it does not, where nothing else says so."""
    for place, mine in eager.items():
        if place not in again or not _near(mine, again[place]):
            continue
        if place in compiled and not _near(mine, compiled[place]):
            yield Broken("state", place, f"becomes {_quoted(mine)}", f"becomes {_quoted(compiled[place])}")
        elif place not in compiled and lacking:
            yield Broken("state", place, f"becomes {_quoted(mine)}", "is left as it was")


def _near(one: Any, other: Any) -> bool:
    """Equal, or two floats that rounding may have made of one: they are often read from tensors."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_NEAR, abs_tol=_LEAST) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


def kept_state(model: Any) -> dict[str, Signature]:
    """The containers, numbers and texts that a run of `model` can reach beside its arguments, by where they are: in
    attributes of its modules, in its classes, in closures, and in globals that its functions name. Of tensors there it
    is which one it is, and how often it was written to.
    """
    found: dict[str, Signature] = {}
    for place, value in reached_values(model):
        if isinstance(value, (list, dict, set, deque)):
            found[place] = sign(value) if len(value) < _MOST_HELD else ("holds", len(value))
        elif isinstance(value, torch.Tensor):
            found[place] = ("tensor", id(value), version_of(value))
        else:
            found[place] = sign(value)
    return found


def reached_values(model: Any) -> Iterator[tuple[str, Any]]:
    """The values that `kept_state` signs, and the tensors, with their places."""
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", model)]
    while waiting and len(seen) < _MOST_SEEN:
        place, value = waiting.pop()
        if isinstance(value, (list, dict, set, deque, torch.Tensor, *_PLAIN)):
            yield place, value
        elif id(value) not in seen:
            seen.add(id(value))
            waiting += [(f"{place}.{name}".lstrip("."), item) for name, item in _reached(value)]


def _reached(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.nn.Module):
        yield from ((name, item) for name, item in vars(value).items() if name not in _OF_MODULES)
        yield from value.named_children()
        yield type(value).__name__, type(value)
    elif isinstance(value, types.MethodType):
        yield type(value.__self__).__name__, value.__self__
        yield getattr(value.__func__, "__name__", "partial"), value.__func__
    elif isinstance(value, functools.partial):
        yield "function", value.func
        yield from value.keywords.items()
    elif isinstance(value, types.FunctionType) and not _of_torch(value):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # Not filled yet.
                yield name, cell.cell_contents
        named = ((name, value.__globals__.get(name)) for name in value.__code__.co_names)
        yield from (
            (name, item) for name, item in named if isinstance(item, (list, dict, set, deque, torch.Tensor, *_PLAIN))
        )
    elif isinstance(value, type) and not _of_torch(value):
        held = (list, dict, set, deque, types.FunctionType, *_PLAIN)
        yield from ((name, item) for name, item in vars(value).items() if name[:2] != "__" and isinstance(item, held))


def _of_torch(value: Any) -> bool:
    return str(value.__module__).partition(".")[0] == "torch"


def _steps(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of the dimensions that have more than one element; none of a tensor that is empty or not strided."""
    if not _is_plain(tensor):
        return ()
    return tuple(step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)


def sharing(tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[frozenset[str]]:
    """The names of tensors that lie in one storage, where there are several."""
    storages: dict[int, list[str]] = {}
    for name, tensor in tensors:
        if _is_plain(tensor):
            storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return (frozenset(names) for address, names in storages.items() if address and len(names) > 1)


def _is_plain(tensor: torch.Tensor) -> bool:
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return plain and tensor.numel() > 0


def _otherwise_shared(eager: Iterable[frozenset[str]], compiled: Iterable[frozenset[str]]) -> Iterator[Broken]:
    pairs = [
        {tuple(sorted((one, two))) for names in groups for one in names for two in names if one < two}
        for groups in (eager, compiled)
    ]
    for one, two in sorted(pairs[0] ^ pairs[1]):
        words = ("share memory", "do not share memory")
        mine, theirs = words if (one, two) in pairs[0] else words[::-1]
        yield Broken("memory", f"{one} and {two}", mine, theirs)


def _unlike(one: Signature, two: Signature, place: str) -> Iterator[Broken]:
    """Where two signatures of `nested_values.sign` differ."""
    if one == two:
        return
    if "again" in (one[0], two[0]):
        yield Broken(
            "identity", place, *("is one of the others" if x[0] == "again" else "is its own" for x in (one, two))
        )
    elif one[0] == two[0] == "tensor":
        # Strides are held of what a call gives by itself alone: in a cache, or another object, Inductor chooses them.
        contracts = ("class", "shape", "", "dtype", "device", "requires_grad")
        for contract, own, other in zip(contracts, one[1:], two[1:], strict=True):
            if contract and own != other:
                yield Broken(contract, place, f"has {contract} {_short(own)}", f"has {contract} {_short(other)}")
    elif _class(one) != _class(two):
        yield Broken("class", place, f"is {_class(one)}", f"is {_class(two)}")
    elif one[0] == "value" and not (_class(one) == "float" and _near(float(one[2]), float(two[2]))):
        yield Broken("python", place, f"is {_quoted(one[2])}", f"is {_quoted(two[2])}")
    elif one[0] == "holds":
        (_, _, mine), (_, _, theirs) = one, two
        names, others = [name for name, _ in mine], [name for name, _ in theirs]
        if names != others:
            same = sorted(map(repr, names)) == sorted(map(repr, others))
            fault = "holds them in another order" if same else f"holds {len(theirs)} or others"
            yield Broken("python", place, f"holds {len(mine)} things", fault)
            return
        for (name, item), (_, other) in zip(mine, theirs, strict=True):
            yield from _unlike(item, other, f"{place}[{name}]" if isinstance(name, int) else f"{place}.{name}")


def _class(signature: Signature) -> str:
    return {"tensor": str(signature[1]), "none": "None"}.get(signature[0]) or str(signature[1])


def _short(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _quoted(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
