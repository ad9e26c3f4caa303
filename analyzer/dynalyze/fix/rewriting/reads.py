"""Values read out of tensors that are only computed with: left in the tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, looks_like_tensor, torch_name, without_read
from dynalyze.fix.sites import Proposal, Site, walk

_READS = ("Unsupported Tensor.item()", "Data dependent operator", "Data-dependent", "Unsupported function call")
_ALIKE = ("sqrt", "exp", "log", "log2", "sin", "cos", "tanh", "floor", "ceil", "isnan", "isinf", "isfinite")
_MATHS = {"fabs": "abs", **{name: name for name in _ALIKE}}


@rewriter("keep-in-tensor", *_READS, rank=15)
def keep_in_tensor(site: Site) -> Iterator[Proposal]:
    """`x.max().item()`, `float(x.max())`, `int(x.sum())`: without the read, where a tensor does as well."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        if any(parent in changes for parent in _above(site, node)):
            continue
        new = _without_read(site, node)
        if new is not None:
            changes[node] = new
    if changes:
        yield Proposal(
            "", "Compute with the tensor, without reading its value out",
            site.with_nodes(dict(changes), import_of_torch(site)),
        )  # fmt: skip


def _without_read(site: Site, node: cst.Call) -> cst.BaseExpression | None:
    """The tensor in the place of what is read from it; None where the call is no read."""
    bare = without_read(node)
    if bare is not node and called(node) == "item":
        return _bracketed(bare)
    if not isinstance(node.func, cst.Name | cst.Attribute) or len(node.args) != 1 or node.args[0].keyword is not None:
        return None
    argument, name = node.args[0].value, called(node)
    inner = without_read(argument)
    if inner is argument and not looks_like_tensor(site, argument):
        return None
    if isinstance(node.func, cst.Name) and name == "float":
        return _bracketed(inner)
    if isinstance(node.func, cst.Name) and name == "int":
        return cst.parse_expression(f"{_text(site, inner)}.long()")
    if isinstance(node.func, cst.Attribute) and site.code(node.func.value) == "math" and name in _MATHS:
        return cst.parse_expression(f"{torch_name(site)}.{_MATHS[name]}({site.code(inner)})")
    return None


def _text(site: Site, node: cst.BaseExpression) -> str:
    text = site.code(node)
    return text if isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript) else f"({text})"


def _bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.Name | cst.Attribute | cst.Call | cst.Subscript) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _above(site: Site, node: cst.CSTNode) -> list[cst.CSTNode]:
    found = []
    while (parent := site.parents.get(node)) is not None:
        found.append(parent)
        node = parent
    return found
