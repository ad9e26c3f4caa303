"""What a call keeps beside its values, and compiling must keep too: the contracts of docs/accuracy.md.

| contract      | what is the same in eager and in compiled                                                |
|---------------|------------------------------------------------------------------------------------------|
| exception     | what eager refuses, compiled refuses                                                     |
| class         | the class of everything that comes out, tensors and Python values alike                  |
| dtype, shape, device, stride, requires_grad | those of every tensor; the stride of one element alone says nothing |
| memory        | which of the tensors that go in and come out share memory                                |
| identity      | which objects that come out are one                                                      |
| python        | numbers, texts and containers that come out, and what the arguments hold after the call  |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from dynalyze.capture.nested_values import Signature, sign
from dynalyze.capture.torch_private import compiled_calls

_LONGEST = 60


class Broken(NamedTuple):
    """One thing that eager does and compiled does not; both sides in words."""

    contract: str
    place: str
    eager: str
    compiled: str

    def __str__(self) -> str:
        return f"{self.place} {self.compiled} in compiled, {self.eager} in eager"


@dataclass
class Promises:
    """What a pass kept, by call: the forms of what came out and of the arguments after it, and who shares memory."""

    forms: dict[str, Signature] = field(default_factory=dict)
    shared: dict[str, frozenset[frozenset[str]]] = field(default_factory=dict)

    def note(self, call: str, outputs: Any, arguments: Any, tensors: Mapping[str, torch.Tensor]) -> None:
        """Once a call has returned; `tensors` are those that went in and came out."""
        with compiled_calls.unobserved():
            self.forms[f"{call}output"] = sign(outputs)
            self.forms[f"{call}arguments"] = sign(arguments)
            self.shared[call] = frozenset(_groups(tensors))


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
    return list(found)


def _groups(tensors: Mapping[str, torch.Tensor]) -> Iterator[frozenset[str]]:
    """The names of tensors that lie in one storage, where there are several."""
    storages: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided and tensor.numel():
            storages.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return (frozenset(names) for address, names in storages.items() if address and len(names) > 1)


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
        yield from _unlike_tensors(one, two, place)
    elif _class(one) != _class(two):
        yield Broken("class", place, f"is {_class(one)}", f"is {_class(two)}")
    elif one[0] == "value":
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


def _unlike_tensors(one: Signature, two: Signature, place: str) -> Iterator[Broken]:
    names = ("class", "shape", "stride", "dtype", "device", "requires_grad")
    for name, mine, other in zip(names, one[1:], two[1:], strict=True):
        # Other shapes have other strides, and of no element none tells anything.
        silent = name == "stride" and (one[2] != two[2] or 0 in one[2])
        if mine != other and not silent:
            yield Broken(name, place, f"has {name} {_short(mine)}", f"has {name} {_short(other)}")


def _class(signature: Signature) -> str:
    return {"tensor": str(signature[1]), "none": "None"}.get(signature[0]) or str(signature[1])


def _short(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _quoted(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
