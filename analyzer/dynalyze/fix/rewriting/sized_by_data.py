"""What a function works out of values where these decide how much it makes or what it does: positions of patches of
images, boxes that overlap, the best assignment as SciPy finds it, crops. From some statement on it is a function of its
own, and in compiled code an operator of torch, with a gradient where one goes through.

It runs as it is there. Where it makes sizes that are not known before, the setting for operators of such sizes goes
with it. What torch is told of types and sizes is looked at again when the operator runs.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import libcst as cst

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.made_tensors import dims_of, is_made_by_itself
from dynalyze.fix.rewriting.operator_gradients import Taken, gradient_of
from dynalyze.fix.rewriting.signatures import taking
from dynalyze.fix.rewriting.whole_numbers import (
    READS,
    WHOLE,
    Function,
    chain_of,
    enclosing,
    in_lines,
    is_plain_tensor,
    read_of,
    space_of,
)
from dynalyze.fix.settings import READS_SIZES
from dynalyze.fix.sites import Changes, Proposal, Site, Value, statements_of

_SCALARS = ("int", "float", "bool", "str")
_OF_TORCH = ("dtype", "device")
_REAL = ("float", "bfloat")
_CUT_OFF = ("from_numpy", "tensor")
_HOST = ("attempted to trace numpy", "Attempted to call function marked as skipped", "failed to convert numpy",
         "Attempted to inline function marked as skipped", "Unsupported function call", "Tensor.numpy()")  # fmt: skip
_UNKNOWN = "size_"
NO_CHANCE = 16
"""Elements of two tensors from which on it is no chance that they have one size: torch is told that it is the same."""


@rewriter("sized-by-data", *READS, *_HOST, rank=45, outer=True)
def work_out_in_an_operator(site: Site) -> Iterator[Proposal]:
    """`for t, h, w in grid.tolist(): made.append(torch.arange(t * h * w))` and what follows, up to the return."""
    tail = Tail.of(site)
    if tail is None:
        return
    settings = dict(READS_SIZES) if tail.unknown else {}
    alike = replace(tail, no_chance=1)
    for least in (0, 2) if tail.unknown else (0,):  # Slices of no or one element are often more than torch can tell.
        few = ", which raises in compiled code where a size is below 2" if least else ""
        source = tail.in_operator(site, least)
        yield Proposal("", tail.title + few, source, settings=settings, last_resort=tail.differentiable)
    if len(alike.unknown) < len(tail.unknown):
        told = " and tell torch which sizes are the same, which raises in compiled code where they are not"
        source = alike.in_operator(site)
        yield Proposal("", tail.title + told, source, settings=settings, last_resort=tail.differentiable)


@dataclass(frozen=True)
class Tail:
    """The statements of a function from `start` on, as a function of what they take: types by name, with those that
    are `held` by its object, and the `known` tensors among it. `made` are the tensors that it returned when the program
    ran. Two results that had one size, of so many elements that it is `no_chance`, are told to have one.
    `differentiable` where a gradient goes through it.
    """

    whole: Function
    start: int
    takes: dict[str, str]
    held: dict[str, str]
    known: dict[str, Value]
    made: tuple[Value, ...]
    differentiable: bool = False
    no_chance: int = NO_CHANCE

    @classmethod
    def of(cls, site: Site) -> Tail | None:
        """The longest one that holds the line and only computes with whole numbers; else the shortest one that
        computes with any, where no gradient goes through what it makes, or through all of it.
        """
        whole, returned = enclosing(site), site.values.get(RETURNED)
        torch = torch_name(site)
        if whole is None or "." in torch or _names_of(whole) & top_names(site.text):
            return None
        if returned is None or not isinstance(site.function.body, cst.IndentedBlock):
            return None
        made = (returned,) if returned.kind == "tensor" else returned.items
        statements = whole.node.body
        if not made or any(each.kind != "tensor" or each.name != "Tensor" for each in made):
            return None
        if len(statements) != len(site.function.body.body) or not isinstance(statements[-1], ast.Return):
            return None
        returns = statements[-1].value
        if isinstance(returns, ast.Tuple) and len(returns.elts) != len(made):
            return None
        starts = [start for start, first in enumerate(statements) if first.lineno <= site.line]
        is_cut_off, is_real = _is_cut_off(made, returns), all(each.dtype.startswith(_REAL) for each in made)
        innermost = site.called is None or cls.of(site.called) is None
        of_any = innermost and (is_cut_off or is_real)
        for kinds, ordered in ((WHOLE, starts), ((), starts[::-1] if of_any else [])):
            for start in ordered:
                takes = _taken(site, whole, start, kinds)
                held = None if takes is None else _held(site, whole, start, takes, kinds)
                if takes is None or held is None:
                    continue
                texts = {**{each: each for each in takes}, **{each: text for each, (text, _) in held.items()}}
                takes |= {each: kind for each, (_, kind) in held.items()}
                known = {each: site.values[texts[each]] for each, kind in takes.items() if kind == "Tensor"}
                if known:
                    moved = any(each.dtype.startswith(_REAL) for each in known.values())
                    return cls(whole, start, takes, {each: texts[each] for each in held}, known, made,
                               moved and not is_cut_off)  # fmt: skip
        return None

    @property
    def statements(self) -> list[ast.stmt]:
        return self.whole.node.body[self.start :]

    @property
    def title(self) -> str:
        of = "whole numbers" if all(each.dtype in WHOLE for each in self.known.values()) else "values"
        back = ", which has its gradient" if self.differentiable else ""
        alike = [name for each in self.made if (name := self._sized_like(each))]
        told = f"; its result has the size of {alike[0]}, which compiled code checks" if alike else ""
        return f"Work out what `{self.whole.node.name}` makes of {of} in an operator of its own{back}{told}"

    @cached_property
    def unknown(self) -> dict[str, int]:
        """The sizes of what it makes that only the data know: a name for each, and what it was."""
        return {
            size: each.sizes[dim]
            for each, own in zip(self.made, self._sizes, strict=True) for dim, size in enumerate(own)
            if size.startswith(_UNKNOWN)
        }  # fmt: skip

    def in_operator(self, site: Site, least: int = 0, given: Sequence[str] = ()) -> str:
        """The file with the operator, and the function calling it in compiled code. Sizes that nobody knows are `least`
        or more; those that are `given` are arguments of the function.
        """
        function, torch = self.whole.label, torch_name(site)
        body = cst.ensure_type(site.function.body, cst.IndentedBlock)
        asked = [f"{torch}.compiler.is_compiling()", *(f"{each} is not None" for each in given)]
        takes = {each: self.held.get(each, each) for each in self.takes}
        asked += [f"isinstance({takes[each]}, {_class(kind, torch)})" for each, kind in self.takes.items()]
        cut = [] if self.differentiable else [each for each in self.known if self.known[each].dtype not in WHOLE]
        detached = [f"{text}.detach()" if each in cut else text for each, text in takes.items()]
        called = statements_of(
            f"if ({in_lines(asked, 0, ' and ')}):\n    return _{function}_op({in_lines([*detached, *given], 1)})\n"
            f"return _{function}_of({in_lines([*takes.values()])})\n"
        )
        new = body.with_changes(body=[*body.body[: self.start], *called])
        changes: Changes = {body: new, site.function.params: taking(site.function, given)}
        operator = self._operator(site, torch, least, given)
        if self.whole.owner is not None:
            return site.with_nodes(changes, import_of_torch(site) + operator)
        # Below the function, so that what goes to a function of its own stays on the lines where it was.
        return site.with_nodes(changes, import_of_torch(site), below=operator)

    def _operator(self, site: Site, torch: str, least: int, given: Sequence[str]) -> str:
        """The function, the operator that calls it, and its fake."""
        function = self.whole.label
        name = f"_{function}_op"
        body = textwrap.indent(textwrap.dedent(self._body(site)), "    ")
        takes = [f"{each}: {_class(kind, torch)}" for each, kind in self.takes.items()]
        sized = [f"{each}: int" for each in given]
        gives = [f"{torch}.Tensor"] * len(self.made)
        returns = gives[0] if len(gives) == 1 else f"tuple[{', '.join(gives)}]"
        sizes, unknown = self._sizes, [each for each in self.unknown if each not in given]
        types = [self._type(each, torch) for each in self.made]
        fakes = [f"{self._maker(number, torch)}({_tuple(each)}, dtype={kind})"
                 for number, (each, kind) in enumerate(zip(sizes, types, strict=True))]  # fmt: skip
        called = f"_{function}_of({in_lines(list(self.takes), 1)})"
        plain = len(self.made) == 1
        names = ["made"] if plain else [f"made_{number}" for number in range(len(self.made))]
        checks = [f"{each}.dtype == {kind}" for each, kind in zip(names, types, strict=True)]
        known: dict[str, str] = {}
        for each, own in zip(names, sizes, strict=True):
            checks.append(f"{each}.dim() == {len(own)}")
            for dim, size in enumerate(own):
                if size not in unknown:
                    checks.append(f"{each}.shape[{dim}] == {size}")
                elif known.setdefault(size, f"{each}.shape[{dim}]") != f"{each}.shape[{dim}]":
                    checks.append(f"{each}.shape[{dim}] == {known[size]}")
                elif least:
                    checks.append(f"{each}.shape[{dim}] >= {least}")
        copies = [f"{each}.clone(memory_format={torch}.contiguous_format)" for each in names]
        bound = f"min={least}" if least else ""
        news = "".join(f"    {each} = {torch}.library.get_ctx().new_dynamic_size({bound})\n" for each in unknown)
        return (
            f"\n\ndef _{function}_of({in_lines(takes)}):\n{body}\n\n\n"
            f"@{torch}.library.custom_op(\n"
            f'    "{space_of(site)}::{function}", mutates_args=(), tags={torch}.Tag.cudagraph_unsafe\n)\n'
            f"def {name}({in_lines([*takes, *sized])}) -> {returns}:\n"
            f"    {', '.join(names)} = {called}\n"
            f"    if not ({in_lines(checks, 1, ' and ')}):\n"
            f'        raise RuntimeError("{function} makes something else than its fake says")\n'
            f"    return {copies[0] if plain else f'({in_lines(copies, 1)})'}\n\n\n"
            f"@{name}.register_fake\ndef {name}_fake({in_lines([*self.takes, *given])}):\n{news}"
            f"    return {fakes[0] if plain else f'({in_lines(fakes, 1)})'}\n"
            + (gradient_of(function, f"{space_of(site)}::{function}", self._arguments(torch), given, len(names), torch)
               if self.differentiable else "")
        )  # fmt: skip

    def _body(self, site: Site) -> str:
        """The statements as they are, with arguments in the place of attributes of the object."""
        lines = [each.encode() for each in site.text.splitlines()]
        names = {text: name for name, text in self.held.items()}
        reads = [node for each in self.statements for node in ast.walk(each)
                 if isinstance(node, ast.Attribute) and ast.unparse(node) in names]  # fmt: skip
        for node in sorted(reads, key=lambda each: (each.lineno, each.col_offset), reverse=True):
            line = lines[node.lineno - 1]
            name = names[ast.unparse(node)].encode()
            lines[node.lineno - 1] = line[: node.col_offset] + name + line[node.end_col_offset :]
        first, last = self.statements[0].lineno - 1, self.whole.node.end_lineno
        return "\n".join(each.decode() for each in lines[first:last])

    def _arguments(self, torch: str) -> list[Taken]:
        return [
            Taken(each, _class(kind, torch), each in self.known,
                  each in self.known and self.known[each].dtype.startswith(_REAL))
            for each, kind in self.takes.items()
        ]  # fmt: skip

    def _type(self, made: Value, torch: str) -> str:
        given = [each for each, kind in self.takes.items() if kind == "dtype"]
        return given[0] if len(given) == 1 else f"{torch}.{made.dtype}"

    @cached_property
    def _sizes(self) -> list[list[str]]:
        """The sizes of each result, as source; those that only the data know have names."""
        found: list[list[str]] = []
        unknown = 0
        for number, each in enumerate(self.made):
            twin = next((one for one in range(number) if _is_twin(self.made[one], each, self.no_chance)), None)
            if twin is not None:
                found.append(found[twin])
                continue
            if given := self._sized_like(each):
                found.append([f"{given}.shape[{dim}]" for dim in range(each.dims or 0)])
                continue
            sizes = self._known_sizes(number, each.dims or 0)
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
        return [""] * dims if returned is None else dims_of(returned, self.statements[:-1], dims, set(self.takes))

    def _maker(self, number: int, torch: str) -> str:
        """What makes a tensor where the result is: beside what is taken, or where torch makes tensors by itself."""
        returned = self._returned(number)
        tensor = next(each for each, kind in self.takes.items() if kind == "Tensor")
        by_itself = returned is not None and is_made_by_itself(returned, self.statements, frozenset())
        return f"{torch}.empty" if by_itself else f"{tensor}.new_empty"

    def _returned(self, number: int) -> ast.expr | None:
        """A result as it is returned; None where one expression makes several."""
        value = cast(ast.Return, self.statements[-1]).value
        if isinstance(value, ast.Tuple):
            return value.elts[number]
        return value if len(self.made) == 1 else None


def _names_of(function: Function) -> set[str]:
    """The names at the top of the file that the operator needs."""
    name = function.label
    return {f"_{name}_op", f"_{name}_op_fake", f"_{name}_of"}


def _is_twin(one: Value, other: Value, no_chance: int = NO_CHANCE) -> bool:
    """Whether two tensors have one size, and so many elements that it is no chance."""
    return one.sizes == other.sizes and math.prod(one.sizes) >= no_chance


def _is_cut_off(made: Sequence[Value], returns: ast.expr | None) -> bool:
    """Whether no gradient goes through any result: whole numbers have none, nor has what comes from numpy."""
    returned = returns.elts if isinstance(returns, ast.Tuple) else [returns]
    if all(each.dtype in WHOLE for each in made):
        return True
    return len(returned) == len(made) and all(map(_from_numbers, returned))


def _from_numbers(node: ast.expr | None) -> bool:
    """`torch.from_numpy(y).float()`, `torch.tensor(numbers)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CUT_OFF:
            return True
        node = node.func.value
    return False


def _class(kind: str, torch: str) -> str:
    return kind if kind in _SCALARS else f"{torch}.{kind}"


def _tuple(sizes: Sequence[str]) -> str:
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def _taken(site: Site, whole: Function, start: int, kinds: Sequence[str]) -> dict[str, str] | None:
    """What the statements from `start` on take of the function, with types; None where one has none that fits. Tensors
    have one of these dtypes, or any.
    """
    before, tail = whole.node.body[:start], whole.node.body[start:]
    outer = [node.arg for node in ast.walk(whole.node.args) if isinstance(node, ast.arg)]
    outer += [node.id for node in _names(before) if _is_set(node)]
    named = _names(tail)
    found: dict[str, str] = {}
    for name in dict.fromkeys(outer):
        if name != whole.me and any(node.id == name for node in named) and not _is_anew(tail, name):
            kind = _kind(site.values.get(name), kinds)
            if not kind or any(node.id == name and _is_set(node) and node.lineno < site.line for node in named):
                return None  # What is known of it is what it was at the line.
            found[name] = kind
    return found


def _names(statements: Sequence[ast.stmt]) -> list[ast.Name]:
    return [node for each in statements for node in ast.walk(each) if isinstance(node, ast.Name)]


def _is_set(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_anew(tail: Sequence[ast.stmt], name: str) -> bool:
    """Whether the first statement that names a variable gives it a value of its own."""
    for statement in tail:
        named = [node for node in _names([statement]) if node.id == name]
        if named:
            return isinstance(statement, ast.Assign | ast.AnnAssign) and all(map(_is_set, named))
    return False


def _kind(value: Value | None, kinds: Sequence[str]) -> str:
    if value is None:
        return ""
    if value.kind == "tensor":
        return "Tensor" if is_plain_tensor(value, kinds) else ""
    return value.kind if value.kind in (*_SCALARS, *_OF_TORCH) else ""


def _held(
    site: Site, whole: Function, start: int, takes: dict[str, str], kinds: Sequence[str]
) -> dict[str, tuple[str, str]] | None:
    """What the statements read of their object: names for it, with its text and type. None where they read something
    else than they take, change anything else, or return before their end.
    """
    tail = whole.node.body[start:]
    returns = [node for each in tail for node in ast.walk(each) if isinstance(node, ast.Return)]
    if len(returns) != 1:
        return None
    me = [whole.me] if whole.me else []
    arguments = ast.arguments([], [ast.arg(each) for each in [*me, *takes]], None, [], [], None, [])
    made = ast.FunctionDef(whole.node.name, arguments, tail, [])
    read = read_of(site, Function(made, whole.owner if me else None), tensors=kinds)
    if read is None or read.methods:
        return None
    used = {node.id for node in _names(tail)} | top_names(site.text)
    held = {"_".join(chain): (".".join([*me, *chain]), kind) for chain, kind in read.chains.items()}
    over_lines = any(isinstance(node, ast.Attribute) and node.lineno != node.end_lineno and chain_of(node, whole.me)
                     for each in tail for node in ast.walk(each))  # fmt: skip
    return None if used & set(held) or len(held) < len(read.chains) or over_lines else held
