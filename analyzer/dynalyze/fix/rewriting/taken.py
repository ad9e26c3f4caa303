"""What the last statements of a function take of it, and of its object: the arguments of an operator that runs them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from dynalyze.capture.fixing import ARGUMENT
from dynalyze.fix.rewriting.computing import SCALARS, Function, chain_of, is_plain_tensor, read_of
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.made_tensors import is_set
from dynalyze.fix.sites import Site, Value

TENSOR, TENSORS, NUMBERS = "Tensor", "list[Tensor]", "list[int]"
ANNOTATED = frozenset({"torch", TENSOR, "LongTensor", "IntTensor", "BoolTensor", "None", "Optional", "Union"})
"""The words of annotations that say that an argument is a tensor, or None."""
_OF_TORCH = ("dtype", "device")


def taken_by(site: Site, whole: Function, start: int, kinds: Sequence[str]) -> dict[str, Value] | None:
    """What the statements from `start` on take of the function; None where the type of one does not fit. Tensors have
    one of these dtypes, or any.
    """
    before, tail = whole.node.body[:start], whole.node.body[start:]
    arguments = [node.arg for node in ast.walk(whole.node.args) if isinstance(node, ast.arg)]
    variables = [node.id for node in _names(before) if is_set(node)]
    named = _names(tail)
    lacking = may_lack(whole, start) if kinds else []
    found: dict[str, Value] = {}
    for name in dict.fromkeys([*arguments, *variables]):
        if name != whole.me and any(node.id == name for node in named) and not _is_anew(tail, name):
            value = site.values.get(name)
            if name not in variables:
                value = site.values.get(f"{ARGUMENT}{name}", value)
            changed = any(is_set(node, name) and node.lineno < site.line for node in named)
            if changed and (name in variables or f"{ARGUMENT}{name}" not in site.values):
                return None  # What is known of it is what it was at the line.
            is_none = value is not None and value.kind == "NoneType" and name in lacking
            if value is None or not (is_none or kind_of(value, kinds)):
                return None
            found[name] = value
    return found


def may_lack(whole: Function, start: int) -> list[str]:
    """The arguments that the statements from `start` on take, and that are tensors or None by their annotations."""
    given = whole.node.args
    plain = zip(reversed(given.args), reversed(given.defaults), strict=False)
    defaults = {each.arg: default for each, default in [*plain, *zip(given.kwonlyargs, given.kw_defaults, strict=True)]}
    variables = [node.id for node in _names(whole.node.body[:start]) if is_set(node)]
    found = []
    for each in whole.arguments:
        words = set(re.findall(r"\w+", ast.unparse(each.annotation))) if each.annotation is not None else set()
        default = defaults.get(each.arg)
        lacks = words & {"None", "Optional"} or (isinstance(default, ast.Constant) and default.value is None)
        if each.arg not in variables and lacks and words and words <= ANNOTATED:
            found.append(each.arg)
    return found


def _names(statements: Sequence[ast.stmt]) -> list[ast.Name]:
    """All but those that a comprehension has for itself."""
    nodes = [node for each in statements for node in ast.walk(each)]
    own = {
        node for around in nodes if isinstance(around, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        for node in ast.walk(around) if isinstance(node, ast.Name) and node.id in _targets(around)
    }  # fmt: skip
    return [node for node in nodes if isinstance(node, ast.Name) and node not in own]


def _targets(around: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> set[str]:
    return {node.id for each in around.generators for node in ast.walk(each.target) if isinstance(node, ast.Name)}


def _is_anew(tail: Sequence[ast.stmt], name: str) -> bool:
    """Whether the first statement that names a variable gives it a value of its own."""
    for statement in tail:
        named = [node for node in _names([statement]) if node.id == name]
        if named:
            return isinstance(statement, ast.Assign | ast.AnnAssign) and all(map(is_set, named))
    return False


def kind_of(value: Value, kinds: Sequence[str] = ()) -> str:
    """The type that an operator takes it as; "" where it takes none such."""
    if value.kind == "tensor":
        return TENSOR if is_plain_tensor(value, kinds) else ""
    if value.kind == "list" and value.name == "int":
        return NUMBERS
    if value.kind == "list" and value.items:
        return TENSORS if all(is_plain_tensor(each, kinds) for each in value.items) else ""
    return value.kind if value.kind in (*SCALARS, *_OF_TORCH) else ""


class Held(NamedTuple):
    """What statements read of their object: names for it, with its text and type, and methods that they call."""

    chains: dict[str, tuple[str, str]]
    methods: tuple[str, ...]


def held_by(site: Site, whole: Function, start: int, takes: Sequence[str], kinds: Sequence[str]) -> Held | None:
    """None where the statements read something else than they take, change anything else, or return before their
    end.
    """
    tail = whole.node.body[start:]
    nodes = [node for each in tail for node in ast.walk(each)]
    if sum(isinstance(node, ast.Return) for node in nodes) != 1:
        return None
    me = [whole.me] if whole.me else []
    arguments = ast.arguments([], [ast.arg(each) for each in [*me, *takes]], None, [], [], None, [])
    made = ast.FunctionDef(whole.node.name, arguments, tail, [])
    read = read_of(site, Function(made, whole.owner if me else None), tensors=kinds)
    if read is None:
        return None
    used = {node.id for node in nodes if isinstance(node, ast.Name)} | top_names(site.text)
    held = {"_".join(chain): (".".join([*me, *chain]), kind) for chain, kind in read.chains.items()}
    own = [node for node in nodes if chain_of(node, whole.me)]
    over_lines = any(node.lineno != node.end_lineno for node in own if isinstance(node, ast.Attribute))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    asked = any(chain_of(node, whole.me) in [(each,) for each in read.methods] and node not in called for node in own)
    clash = used & set(held) or len(held) < len(read.chains)
    return None if clash or over_lines or asked else Held(held, tuple(read.methods))
