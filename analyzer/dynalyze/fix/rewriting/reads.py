"""Numbers read out of tensors that one operation is done with: left in the tensor, where that computes the same.

Python computes with whole numbers of any size and in double precision: what is computed from a read number in Python
(`n * 3`, `total += loss.item()`) is something else in a tensor, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import looks_like_tensor, without_read
from dynalyze.fix.rewriting.dtypes import dtype_of, holds, is_exact
from dynalyze.fix.rewriting.syntax import assigned_values, bracketed, called, number
from dynalyze.fix.sites import Proposal, Site, Value, walk

_READS = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Unsupported function call",
          "Dynamic shape operator", "Failed to trace builtin operator")  # fmt: skip
_BESIDE = (cst.Add, cst.Subtract, cst.Multiply)
_CASTS = {"int": ".long()", "bool": ".bool()", "float": ""}
_GIVEN = {"int": "int64", "bool": "bool"}
_BOUND = (cst.AssignTarget, cst.AugAssign, cst.NamedExpr, cst.Param, cst.CompFor, cst.For, cst.AsName)


@rewriter("keep-in-tensor", *_READS, rank=15)
def keep_in_tensor(site: Site) -> Iterator[Proposal]:
    """`x / x.max().item()`, `scale = float(x.max())`: without the read, where one operation with a tensor of the same
    dtype, or a comparison, is all that is done with it.
    """
    if not isinstance(site.statement, cst.SimpleStatementLine):
        return
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    inside: set[int] = set()
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        found = None if id(node) in inside else _without_read(site, node)
        if found is None:
            continue
        new, dtype = found
        if not counts_alike(site, node, dtype):
            return
        changes[node] = new
        inside |= set(map(id, walk(node)))
    if changes:
        yield Proposal("", "Compute with the tensor, without reading its value out", site.with_nodes(dict(changes)))


def _without_read(site: Site, node: cst.Call) -> tuple[cst.BaseExpression, str] | None:
    """The tensor in the place of what is read from it, and its dtype; None where the expression is no read."""
    bare = without_read(node)
    if bare is not node and called(node) != "tolist":
        return _detached(site, bare), dtype_of(site, bare)
    if not isinstance(node.func, cst.Name) or called(node) not in _CASTS:
        return None
    if len(node.args) != 1 or node.args[0].keyword is not None:
        return None
    argument, name = node.args[0].value, called(node)
    inner = without_read(argument)
    dtype = dtype_of(site, inner)
    if inner is argument and not looks_like_tensor(site, argument):
        return None
    if name == "float":
        return _detached(site, inner), dtype if "float" in dtype else ""
    return cst.parse_expression(f"{bracketed(site, inner)}{_CASTS[name]}"), _GIVEN[name]


def _detached(site: Site, node: cst.BaseExpression) -> cst.BaseExpression:
    """A tensor that, as the number, has no gradient and stays what it is when another one is changed in place."""
    if isinstance(node, cst.Call) and called(node) in ("detach", "any", "all", "isnan", "isinf", "isfinite", "argmax"):
        return node
    found = site.value(node)
    if isinstance(node, cst.Comparison) or (found is not None and found.dtype in ("bool", "int64", "int32")):
        own = ".clone()" if isinstance(node, cst.Name | cst.Attribute) else ""
        return cst.parse_expression(f"{bracketed(site, node)}{own}")
    own = "" if isinstance(node, cst.Call | cst.BinaryOperation) else ".clone()"
    return cst.parse_expression(f"{bracketed(site, node)}.detach(){own}")


def counts_alike(site: Site, node: cst.CSTNode, dtype: str, *, named: bool = False) -> bool:
    """Whether what is done with a read number of this dtype gives the same with the tensor itself. `named` is a
    variable that holds it.
    """
    parent = site.parents.get(node)
    if isinstance(parent, cst.UnaryOperation):
        if isinstance(parent.operator, cst.Not):
            return _is_asked(site, parent)
        return isinstance(parent.operator, cst.Minus) and "float" in dtype and counts_alike(site, parent, dtype)
    if isinstance(parent, cst.BinaryOperation):
        beside = parent.right if parent.left is node else parent.left
        fits = isinstance(parent.operator, _BESIDE) or (
            isinstance(parent.operator, cst.Divide) and parent.right is node
        )
        return fits and holds(dtype, dtype_of(site, beside))
    if isinstance(parent, cst.ComparisonTarget):
        parent = site.parents[parent]
    if isinstance(parent, cst.Comparison):
        sides = [parent.left, *(each.comparator for each in parent.comparisons)]
        others = [each for each in sides if each is not node]
        return len(others) == 1 and _compares(site, others[0], dtype) and counts_alike(site, parent, "bool")
    if not named and isinstance(parent, cst.Assign) and parent.value is node and len(parent.targets) == 1:
        return _held_alike(site, parent.targets[0].target, dtype)
    return _is_asked(site, node)


def _compares(site: Site, other: cst.BaseExpression, dtype: str) -> bool:
    value, known = number(other), site.value(other)
    if value is not None:
        return is_exact(value, dtype)
    return bool(dtype) and (dtype_of(site, other) == dtype or ("int" in dtype and known == Value("int")))


def _held_alike(site: Site, target: cst.BaseExpression, dtype: str) -> bool:
    """Whether all that is done with a variable, which is assigned once, gives the same where it holds the tensor."""
    if not isinstance(target, cst.Name) or len(assigned_values(site, target.value)) != 1:
        return False
    uses = [each for each in walk(site.function) if isinstance(each, cst.Name) and each.value == target.value]
    for use in uses:
        parent = site.parents[use]
        if use is target or (isinstance(parent, cst.Attribute) and parent.attr is use):
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is use:
            continue
        if isinstance(parent, _BOUND) or not counts_alike(site, use, dtype, named=True):
            return False
    return not any(isinstance(each, cst.Lambda | cst.Global | cst.Nonlocal) for each in walk(site.function))


def _is_asked(site: Site, node: cst.CSTNode) -> bool:
    """Whether it is a condition, or a part of one: only whether it is 0 counts then."""
    parent = site.parents.get(node)
    while isinstance(parent, cst.BooleanOperation) or (
        isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    ):
        node, parent = parent, site.parents.get(parent)
    return isinstance(parent, cst.If | cst.While | cst.IfExp) and parent.test is node
