"""The last statements of a function as an operator of torch: its source.

What torch is told of types and sizes is looked at again when the operator runs.
"""

from __future__ import annotations

import ast
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import libcst as cst

from dynalyze.fix.rewriting.computing import SCALARS, WHOLE, Function, chain_of
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.made_tensors import Made
from dynalyze.fix.rewriting.operator_source import Taken, gradient_of, in_lines, new_size, space_of
from dynalyze.fix.rewriting.signatures import taking
from dynalyze.fix.rewriting.taken import ANNOTATED, NUMBERS, TENSOR, TENSORS
from dynalyze.fix.sites import Changes, Site, Value, statements_of, with_top

REAL = ("float", "bfloat")
MAYBE = f"{TENSOR} | None"
NO_CHANCE = 16
"""Elements of two tensors from which on it is no chance that they have one size: torch is told that it is the same."""
_UNKNOWN = "size_"


class Run(NamedTuple):
    """The operator's type, what it does, and what its fake does, as source."""

    returns: str
    runs: str
    fakes: str


@dataclass(frozen=True)
class Tail:
    """The statements of a function from `start` on, as a function of what they take: types by name, with those that
    are `held` by its object, and the `known` tensors among it. They call `methods` of it that read nothing of it.
    `made` are the tensors that it returned when the program ran. Two results that had one size, of so many elements
    that it is `no_chance`, are told to have one. `differentiable` where a gradient goes through it.
    """

    whole: Function
    start: int
    takes: dict[str, str]
    held: dict[str, str]
    methods: tuple[str, ...]
    known: dict[str, Value]
    made: tuple[Value, ...]
    differentiable: bool = False
    no_chance: int = NO_CHANCE

    @property
    def statements(self) -> list[ast.stmt]:
        return self.whole.node.body[self.start :]

    @property
    def title(self) -> str:
        of = "whole numbers" if all(each.dtype in WHOLE for each in self.known.values()) else "values"
        back = ", which has its gradient" if self.differentiable else ""
        alike = [name for each in self.made if (name := self._sized_like(each))]
        told = f"; its result has the size of {alike[0]}, which compiled code checks" if alike else ""
        return f"Work out what `{self.whole.name}` makes of {of} in an operator of its own{back}{told}"

    @cached_property
    def unknown(self) -> dict[str, int]:
        """The sizes of what it makes that only the data know: a name for each, and what it was."""
        return {
            size: each.sizes[dim]
            for each, own in zip(self.made, self._sizes, strict=True) for dim, size in enumerate(own)
            if size.startswith(_UNKNOWN)
        }  # fmt: skip

    @property
    def lists(self) -> dict[str, int]:
        """Those that are how many whole numbers a result has, which has one dimension."""
        own = [sizes[0] for each, sizes in zip(self.made, self._sizes, strict=True)
               if each.dims == 1 and each.dtype in WHOLE]  # fmt: skip
        return {size: number for size, number in self.unknown.items() if size in own}

    def in_operator(
        self, site: Site, least: int = 0, given: Sequence[str] = (), filled: Sequence[str] = ()
    ) -> str:  # fmt: skip
        """The file with the operator, and the function calling it in compiled code. Sizes that nobody knows are `least`
        or more; those that are `given` are arguments of the function. Lists of a `filled` size are filled up to it with
        their last element.
        """
        function, torch = self.whole.label, torch_name(site)
        body = cst.ensure_type(site.function.body, cst.IndentedBlock)
        asked = [f"{torch}.compiler.is_compiling()", *(f"{each} is not None" for each in given)]
        takes = {each: self.held.get(each, each) for each in self.takes}
        asked += [f"type({self.whole.me}).{each} is {_method(self.whole, each)}" for each in self.methods]
        asked += self._asked(takes, torch)
        cut = [] if self.differentiable else [each for each in self.known if self.known[each].dtype not in WHOLE]
        detached = [f"{text}.detach()" if each in cut else text for each, text in takes.items()]
        detached = [f"[each.detach() for each in {text}]" if self.takes[each] == TENSORS else text
                    for each, text in zip(takes, detached, strict=True)]  # fmt: skip
        result = self._result(f"_{function}_op({in_lines([*detached, *given], 1)})")
        called = statements_of(
            f"if ({in_lines(asked, 0, ' and ')}):\n{textwrap.indent(result, '    ')}"
            f"return _{function}_of({in_lines([*takes.values()])})\n"
        )
        new = body.with_changes(body=[*body.body[: self.start], *called])
        changes: Changes = {body: new, site.function.params: taking(site.function, given)}
        operator = self._operator(site, torch, least, given, filled)
        if self.whole.owner is not None:
            text = site.with_nodes(changes, import_of_torch(site) + operator)
        else:
            # Below the function, so that what goes to a function of its own stays on the lines where it was.
            text = site.with_nodes(changes, import_of_torch(site), below=operator)
        return text if set(self.unknown) <= set(given) else with_top(text, new_size(torch))

    def _result(self, call: str) -> str:
        """What is returned of a call of the operator, as statements."""
        return f"return {call}\n"

    def _asked(self, takes: dict[str, str], torch: str) -> list[str]:
        """Whether what is taken, as source, has the types that the operator is for: where no annotation says so."""
        told = {each.arg: ast.unparse(each.annotation) for each in self.whole.arguments if each.annotation is not None}
        asked = []
        for name, kind in self.takes.items():
            words = set(re.findall(r"\w+", told.get(takes[name], "")))
            plain = kind == MAYBE or not words & {"None", "Optional"}
            if told.get(takes[name]) != kind and not (words and words <= ANNOTATED and plain):
                one = "list" if kind.startswith("list[") else _class(kind.removesuffix(" | None"), torch)
                check = f"isinstance({takes[name]}, {one})"
                asked.append(f"({takes[name]} is None or {check})" if kind == MAYBE else check)
        return asked

    def _operator(
        self, site: Site, torch: str, least: int, given: Sequence[str], filled: Sequence[str]
    ) -> str:  # fmt: skip
        """The function, the operator that calls it, and its fake."""
        function = self.whole.label
        name = f"_{function}_op"
        body = textwrap.indent(textwrap.dedent(self._body(site)), "    ")
        takes = [f"{each}: {_class(kind, torch)}" for each, kind in self.takes.items()]
        run = self._run(torch, least, given, filled)
        qualname = f"{space_of(site)}::{function}"
        return (
            f"\n\ndef _{function}_of({in_lines(takes)}):\n{body}\n\n\n"
            f'@{torch}.library.custom_op(\n    "{qualname}", mutates_args=(), tags={torch}.Tag.cudagraph_unsafe\n)\n'
            f"def {name}({in_lines([*takes, *(f'{each}: int' for each in given)])}) -> {run.returns}:\n{run.runs}\n\n"
            f"@{name}.register_fake\ndef {name}_fake({in_lines([*self.takes, *given])}):\n{run.fakes}"
            + (gradient_of(function, qualname, self._arguments(torch), given, len(self.made), torch)
               if self.differentiable else "")
        )  # fmt: skip

    def _run(self, torch: str, least: int, given: Sequence[str], filled: Sequence[str]) -> Run:
        function = self.whole.label
        gives = [f"{torch}.Tensor"] * len(self.made)
        sizes, unknown = self._sizes, [each for each in self.unknown if each not in given]
        types = [self._type(number, each, torch) for number, each in enumerate(self.made)]
        fakes = [f"{self._maker(number, torch)}({tuple_of(each)}, dtype={kind})"
                 for number, (each, kind) in enumerate(zip(sizes, types, strict=True))]  # fmt: skip
        plain = len(self.made) == 1
        names = ["made"] if plain else [f"made_{number}" for number in range(len(self.made))]
        ends = "".join(f"    {each} = {torch}.cat([{each}, {each}[-1:].expand({own[0]} - {each}.shape[0])])\n"
                       for each, own in zip(names, sizes, strict=True) if own[:1] and own[0] in filled)  # fmt: skip
        copies = [f"{each}.clone(memory_format={torch}.contiguous_format)" for each in names]
        news = "".join(f"    {each} = {self._new_size(least)}\n" for each in unknown)
        return Run(
            gives[0] if plain else f"tuple[{', '.join(gives)}]",
            f"    {', '.join(names)} = _{function}_of({in_lines(list(self.takes), 1)})\n{ends}"
            f"    if not ({in_lines(self._checks(names, types, unknown, least), 1, ' and ')}):\n"
            f"        {self.refusal}\n"
            f"    return {copies[0] if plain else f'({in_lines(copies, 1)})'}\n",
            f"{news}    return {fakes[0] if plain else f'({in_lines(fakes, 1)})'}\n",
        )

    def _new_size(self, least: int) -> str:
        """What a fake says for a size that nobody knows, as source."""
        return f"_new_size({next(iter(self.known))}{f', {least}' if least else ''})"

    @property
    def refusal(self) -> str:
        return f'raise RuntimeError("{self.whole.label} makes something else than its fake says")'

    def _checks(self, names: Sequence[str], types: Sequence[str], unknown: Sequence[str], least: int) -> list[str]:
        """Whether the results are what the fake says, as source."""
        checks = [f"{each}.dtype == {kind}" for each, kind in zip(names, types, strict=True)]
        known: dict[str, str] = {}
        for each, own in zip(names, self._sizes, strict=True):
            checks.append(f"{each}.dim() == {len(own)}")
            for dim, size in enumerate(own):
                if size not in unknown:
                    checks.append(f"{each}.shape[{dim}] == {size}")
                elif known.setdefault(size, f"{each}.shape[{dim}]") != f"{each}.shape[{dim}]":
                    checks.append(f"{each}.shape[{dim}] == {known[size]}")
                elif least:
                    checks.append(f"{each}.shape[{dim}] >= {least}")
        return checks

    def _body(self, site: Site) -> str:
        """The statements as they are, with arguments in the place of attributes of the object, and without it."""
        lines = [each.encode() for each in site.text.splitlines()]
        nodes = [node for each in self.statements for node in ast.walk(each)]
        names = {text: name for name, text in self.held.items()}
        put = {node: names[text] for node in nodes if isinstance(node, ast.Attribute)
               and (text := ast.unparse(node)) in names}  # fmt: skip
        methods = [(each,) for each in self.methods]
        called = {node.func: "None, " if node.args or node.keywords else "None" for node in nodes
                  if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                  and chain_of(node.func, self.whole.me) in methods}  # fmt: skip
        for node in sorted([*put, *called], key=lambda each: (each.lineno, each.col_offset), reverse=True):
            line, end = lines[node.lineno - 1], node.end_col_offset or 0
            new = put[node] if node in put else f"{_method(self.whole, node.attr)}({called[node]}"
            lines[node.lineno - 1] = line[: node.col_offset] + new.encode() + line[end + (node in called) :]
        first, last = self.statements[0].lineno - 1, self.whole.node.end_lineno
        return "\n".join(each.decode() for each in lines[first:last])

    def _arguments(self, torch: str) -> list[Taken]:
        return [
            Taken(each, _class(kind, torch), each in self.known,
                  each in self.known and self.known[each].dtype.startswith(REAL))
            for each, kind in self.takes.items()
        ]  # fmt: skip

    def _type(self, number: int, made: Value, torch: str) -> str:
        returned = self._returned(number)
        if returned is not None and (told := self._syntax.dtype(returned)):
            return told
        given = [each for each, kind in self.takes.items() if kind == "dtype"]
        return given[0] if len(given) == 1 else f"{torch}.{made.dtype}"

    @cached_property
    def _syntax(self) -> Made:
        return Made(self.statements[:-1], [each for each, kind in self.takes.items() if kind != MAYBE])

    @cached_property
    def _sizes(self) -> list[list[str]]:
        """The sizes of each result, as source; those that only the data know have names."""
        found: list[list[str]] = []
        unknown = 0
        for number, each in enumerate(self.made):
            sizes = self._known_sizes(number, each.dims or 0)
            if all(sizes):
                found.append(sizes)
                continue
            twin = next((one for one in range(number) if _is_twin(self.made[one], each, self.no_chance)), None)
            if twin is not None:
                found.append(found[twin])
                continue
            if given := self._sized_like(each):
                found.append([f"{given}.shape[{dim}]" for dim in range(each.dims or 0)])
                continue
            for dim, size in enumerate(sizes):
                sizes[dim] = size = size or self._size_of_given(each, dim)
                if not size:
                    sizes[dim] = f"{_UNKNOWN}{unknown}"
                    unknown += 1
            found.append(sizes)
        return found

    def _sized_like(self, made: Value) -> str:
        """The name of what is given that has the size of a result; "" where nothing has."""
        return next((name for name, one in self.known.items() if _is_twin(one, made)), "")

    def _size_of_given(self, made: Value, dim: int) -> str:
        """A size of what is given that stands at the same place and was the same number; "" where chance counts."""
        if self.no_chance == NO_CHANCE or not made.sizes:
            return ""
        for place in (dim, dim - len(made.sizes)):
            for name, given in self.known.items():
                if -len(given.sizes) <= place < len(given.sizes) and given.sizes[place] == made.sizes[dim]:
                    return f"{name}.shape[{place}]"
        return ""

    def _known_sizes(self, number: int, dims: int) -> list[str]:
        returned = self._returned(number)
        return [""] * dims if returned is None else self._syntax.sizes(returned, dims)

    def _maker(self, number: int, torch: str) -> str:
        """What makes a tensor where the result is: beside what is taken, or where torch makes tensors by itself."""
        returned = self._returned(number)
        by_itself = returned is not None and self._syntax.is_made_by_itself(returned)
        return f"{torch}.empty" if by_itself else f"{next(iter(self.known))}.new_empty"

    def _returned(self, number: int) -> ast.expr | None:
        """A result as it is returned; None where one expression makes several."""
        value = cast(ast.Return, self.statements[-1]).value
        if isinstance(value, ast.Tuple):
            return value.elts[number]
        return value if len(self.made) == 1 else None


def _is_twin(one: Value, other: Value, no_chance: int = NO_CHANCE) -> bool:
    """Whether two tensors have one size, and so many elements that it is no chance."""
    return one.sizes == other.sizes and math.prod(one.sizes) >= no_chance


def _class(kind: str, torch: str) -> str:
    return (
        kind
        if kind in (*SCALARS, NUMBERS)
        else kind.replace(TENSOR, f"{torch}.{TENSOR}")
        if TENSOR in kind
        else (f"{torch}.{kind}")
    )


def _method(function: Function, name: str) -> str:
    assert function.owner is not None
    return f"{function.owner.name}.{name}"


def tuple_of(sizes: Sequence[str]) -> str:
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"
