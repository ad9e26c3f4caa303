"""The last statements of a function that return a list of tensors, or of tuples of them, as an operator: the best pairs
of queries and targets of each image. How long the list is tells what is taken.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import cast

from dynalyze.fix.rewriting.computing import WHOLE
from dynalyze.fix.rewriting.operator_source import in_lines
from dynalyze.fix.rewriting.tails import Run, Tail, tuple_of
from dynalyze.fix.rewriting.taken import TENSOR
from dynalyze.fix.sites import Value

_OF = "of"


@dataclass(frozen=True)
class TailOfList(Tail):
    """`rows` are the elements of the list, each with the tensors of its tuple, or with itself where it is `bare`. There
    are as many as `counted` says, as source. `sizing` is a list that is taken and as long: of whole numbers, or of
    tensors; `told` says which sizes of an element the one there tells, by tensor and dimension, and how, as source.
    """

    rows: tuple[tuple[Value, ...], ...] = ()
    bare: bool = False
    counted: str = ""
    sizing: str = ""
    told: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, tail: Tail, returned: Value, given: Mapping[str, Value]) -> TailOfList | None:
        """None where nothing tells how many elements there are, or these are of several kinds."""
        bare = returned.name == TENSOR
        rows = tuple((each,) if bare else each.items for each in returned.items)
        kinds = {tuple((one.dtype, one.dims) for one in row) for row in rows}
        if len(kinds) != 1 or not all(one.dtype in WHOLE for row in rows for one in row):
            return None
        lists = [each for each, value in given.items() if value.kind == "list" and len(value.items) == len(rows)]
        tensors = [each for each, value in tail.known.items() if value.sizes[:1] == (len(rows),)]
        counted = [*(f"len({each})" for each in lists), *(f"{each}.shape[0]" for each in tensors)]
        if not counted:
            return None
        kept = {each.name: getattr(tail, each.name) for each in fields(Tail)}
        found = cls(**kept, rows=rows, bare=bare, counted=counted[0])
        told = {each: found._told_by(given[each].items) for each in lists}
        sizing = max(told, key=lambda each: len(told[each]), default="")
        return replace(found, sizing=sizing, told=told[sizing]) if sizing and told[sizing] else found

    def _told_by(self, items: Sequence[Value]) -> dict[tuple[int, int], str]:
        """The sizes of elements that are a number of what stands in another list, in all of them."""
        known: list[tuple[str, list[int | None]]] = [(_OF, [each.number for each in items])]
        dims = min(len(each.sizes) for each in items)
        known += [(f"{_OF}.shape[{dim}]", [each.sizes[dim] for each in items]) for dim in range(dims)]
        return {
            (number, dim): text
            for number, one in enumerate(self.rows[0]) for dim in range(len(one.sizes))
            for text, numbers in reversed(known) if numbers == [row[number].sizes[dim] for row in self.rows]
        }  # fmt: skip

    @property
    def title(self) -> str:
        told = f"; the sizes of its results are those in {self.sizing}, which compiled code checks"
        return f"Work out what `{self.whole.name}` makes in an operator of its own{told if self.told else ''}"

    @property
    def lists(self) -> dict[str, int]:
        return {}

    @cached_property
    def unknown(self) -> dict[str, int]:
        dims = [(number, dim) for number, one in enumerate(self.rows[0]) for dim in range(len(one.sizes))]
        left = [each for each in dims if each not in self.told]
        return {f"size_{place}": self.rows[0][number].sizes[dim] for place, (number, dim) in enumerate(left)}

    @cached_property
    def _sizes(self) -> list[list[str]]:
        """The sizes of the tensors of one element."""
        unknown = iter(self.unknown)
        return [
            [self.told.get((number, dim)) or next(unknown) for dim in range(len(one.sizes))]
            for number, one in enumerate(self.rows[0])
        ]  # fmt: skip

    def _result(self, call: str) -> str:
        if self.bare:
            return f"return {call}\n"
        each = len(self.rows[0])
        return f"made = {call}\nreturn [tuple(made[at : at + {each}]) for at in range(0, len(made), {each})]\n"

    def _run(self, torch: str, least: int, given: Sequence[str], filled: Sequence[str]) -> Run:
        function, names = self.whole.label, [f"one[{number}]" for number in range(len(self.rows[0]))]
        types = [f"{torch}.{each.dtype}" for each in self.rows[0]]
        of, sizing = (_OF, self.sizing) if self.told else ("_", f"range({self.counted})")
        news = "".join(f"        {each} = {self._new_size(least)}\n" for each in self.unknown)
        fakes = [f"{self._maker(0, torch)}({tuple_of(own)}, dtype={kind})"
                 for own, kind in zip(self._sizes, types, strict=True)]  # fmt: skip
        checks = self._checks(names, types, list(self.unknown), least)
        called = f"_{function}_of({in_lines(list(self.takes), 1)})"
        return Run(
            f"list[{torch}.Tensor]",
            f"    made = [{'[one]' if self.bare else 'list(one)'} for one in {called}]\n"
            f"    for one, {of} in zip(made, {sizing}, strict=True):\n"
            f"        if not ({in_lines([f'len(one) == {len(names)}', *checks], 2, ' and ')}):\n"
            f"            {self.refusal}\n"
            f"    return [each.clone(memory_format={torch}.contiguous_format) for one in made for each in one]\n",
            f"    made = []\n    for {of} in {sizing}:\n{news}"
            f"        made += [{in_lines(fakes, 2)}]\n    return made\n",
        )

    def _returned(self, number: int) -> ast.expr | None:
        """What makes one element of the list, where it is written out."""
        value = cast(ast.Return, self.statements[-1]).value
        while isinstance(value, ast.ListComp):
            value = value.elt
        return value.elts[number] if isinstance(value, ast.Tuple) else value
