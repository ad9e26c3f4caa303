"""A condition on tensors as an expression for one boolean tensor, for torch.where and torch.cond."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import reduce

import libcst as cst

from dynalyze.fix.rewriting.syntax import called, number
from dynalyze.fix.rewriting.tensors import compared, dtype_of, is_exact, looks_like_tensor, without_read
from dynalyze.fix.sites import Site

_BOOL = "bool"
_PLAIN = ("isinstance", "hasattr", "is_floating_point", "is_compiling", "len", "is_tensor", "callable")


@dataclass(frozen=True)
class Condition:
    """`tensor` is the source of a boolean tensor. `static` is a condition of plain Python that must hold too, and is
    asked first; None if there is none.
    """

    tensor: str
    static: str | None = None


def tensor_condition(site: Site, test: cst.BaseExpression) -> Condition | None:
    """The condition as one of a tensor; None if its tensor part is unclear."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        plain, other = test.left, test.right
        if is_plain(site, other):
            plain, other = other, plain  # Python asks the tensor first: in either order both must hold.
        if is_plain(site, plain) and not is_plain(site, other):
            found = tensor_condition(site, other)
            if found is None:
                return None
            own = _bracketed(site, plain)
            return Condition(found.tensor, own if found.static is None else f"{own} and {found.static}")
    tensor = _tensor(site, test)
    return None if tensor is None else Condition(tensor)


def _tensor(site: Site, test: cst.BaseExpression) -> str | None:
    torch = torch_name(site)
    if isinstance(test, cst.BooleanOperation):
        if is_plain(site, test.left):
            # The tensor is only asked where Python's own condition does not decide: it may be None there.
            other, own = _tensor(site, test.right), _bracketed(site, test.left)
            if other is None:
                return None
            if isinstance(test.operator, cst.And):
                return f"({other} if {own} else {torch}.tensor(False))"
            return f"({torch}.tensor(True) if {own} else {other})"
        left, right = _tensor(site, test.left), _tensor(site, test.right)
        if left is None or right is None:
            return None
        operation = "logical_and" if isinstance(test.operator, cst.And) else "logical_or"
        return f"{torch}.{operation}({left}, {right})"
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _tensor(site, test.expression)
        return None if inner is None else f"{torch}.logical_not({inner})"
    if isinstance(test, cst.Comparison):
        return _comparison(site, test)
    return _call(site, test, torch) if isinstance(test, cst.Call) else _truth(site, test)


def _comparison(site: Site, test: cst.Comparison) -> str | None:
    """A comparison without the reads of numbers: `x.max().item() > 1` is `x.max() > 1`."""
    if isinstance(test.comparisons[0].operator, cst.Is | cst.IsNot | cst.In | cst.NotIn):
        return None
    sides = compared(test)
    if len(sides) > 2:  # `0 < x < 5`: each comparison by itself.
        parts = [
            _comparison(site, cst.Comparison(left, [each])) for left, each in zip(sides, test.comparisons, strict=False)
        ]
        known = [each for each in parts if each is not None]
        both = f"{torch_name(site)}.logical_and"
        return reduce(lambda one, other: f"{both}({one}, {other})", known) if len(known) == len(parts) else None
    if not any(_has_tensor(site, each) for each in sides):
        return None
    one, other = _as_compared(site, *sides), _as_compared(site, *reversed(sides))
    return f"({one}{site.code(test.comparisons[0].operator)}{other})"


def _has_tensor(site: Site, node: cst.BaseExpression) -> bool:
    return without_read(node) is not node or looks_like_tensor(site, node)


def _as_compared(site: Site, side: cst.BaseExpression, other: cst.BaseExpression) -> str:
    """A side without the read of a number: in double precision, as Python compares, if its own dtype may not hold the
    other side.
    """
    bare = without_read(side)
    if bare is side:
        return site.code(side)
    dtype, value, known = dtype_of(site, bare), number(other), site.value(other)
    plain = known is not None and known.kind in ("float", "int") and not (known.kind == "int" and "int" in dtype)
    exact = is_exact(value, dtype) if value is not None else not plain or dtype == "float64"
    return site.code(bare) if exact else f"{site.code(bare)}.double()"


def _call(site: Site, test: cst.Call, torch: str) -> str | None:
    name = called(test)
    if name in (_BOOL, "float", "int") and isinstance(test.func, cst.Name) and len(test.args) == 1:
        return _tensor(site, test.args[0].value)
    if name in ("equal", "allclose") and isinstance(test.func, cst.Attribute):
        plain = [each for each in test.args if each.keyword is None]
        if site.code(test.func.value) == torch and len(plain) == 2:
            one, other = (site.code(each.value) for each in plain)
            rest = "".join(f", {site.code(each)}" for each in test.args if each.keyword is not None)
            return f"({one} == {other}).all()" if name == "equal" else f"{torch}.isclose({one}, {other}{rest}).all()"
    return _truth(site, test)


def _truth(site: Site, test: cst.BaseExpression) -> str | None:
    """What Python asks of a tensor in a condition: whether its one element is not 0."""
    bare = without_read(test)
    found = site.value(bare) or site.value(test)
    if isinstance(bare, cst.Call) and called(bare) in ("any", "all", "isinf", "isnan", "is_nonzero", "logical_not"):
        return site.code(bare)
    if found is not None and found.kind == "tensor":
        return site.code(bare) if found.dtype == _BOOL else f"({site.code(bare)} != 0)"
    if bare is not test or looks_like_tensor(site, bare):
        return f"({site.code(bare)} != 0)"
    return None


def _bracketed(site: Site, node: cst.BaseExpression) -> str:
    """A condition of Python as part of an `and`."""
    code = site.code(node)
    return f"({code})" if isinstance(node, cst.BooleanOperation | cst.IfExp | cst.NamedExpr) and not node.lpar else code


def is_plain(site: Site, node: cst.BaseExpression) -> bool:
    """Whether no part of a condition is a tensor."""
    if isinstance(node, cst.BooleanOperation):
        return is_plain(site, node.left) and is_plain(site, node.right)
    if isinstance(node, cst.UnaryOperation):
        return is_plain(site, node.expression)
    if isinstance(node, cst.Comparison):
        if all(isinstance(each.operator, cst.Is | cst.IsNot) for each in node.comparisons):
            return True
        return not any(_has_tensor(site, each) for each in compared(node))
    if without_read(node) is not node:
        return False
    found = site.value(node)
    if found is not None:
        return found.kind != "tensor"
    if isinstance(node, cst.Integer | cst.Float | cst.SimpleString):
        return True
    return isinstance(node, cst.Call) and called(node) in _PLAIN


def torch_name(site: Site) -> str:
    for name, value in site.values.items():
        if value.kind == "module" and value.name == "torch" and name.isidentifier():
            return name
    return "torch"


def import_of_torch(site: Site) -> str:
    """The import that a file lacks to use torch by that name; "" if it has it."""
    imports = (each for each in ast.parse(site.text).body if isinstance(each, ast.Import))
    is_there = any(
        (each.name == "torch" and each.asname in (None, torch_name(site)))
        or (each.name.startswith("torch.") and each.asname is None)
        for statement in imports for each in statement.names
    )  # fmt: skip
    return "" if is_there else "import torch\n"
