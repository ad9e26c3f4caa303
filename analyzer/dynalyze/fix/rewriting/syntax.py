"""What syntax alone tells of expressions."""

from __future__ import annotations

import libcst as cst

from dynalyze.fix.sites import Site, walk

ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber)


def called(call: cst.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


def bracketed(site: Site, node: cst.BaseExpression) -> str:
    """Its source, as a part of a longer expression."""
    return site.code(node) if node.lpar or isinstance(node, ATOMS) else f"({site.code(node)})"


def number(node: cst.BaseExpression) -> int | float | None:
    """A number that is written out."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = number(node.expression)
        return None if inner is None else -inner
    if isinstance(node, cst.Integer | cst.Float):
        found = node.evaluated_value
        return found if isinstance(found, int | float) else None
    return None


def assigned_values(site: Site, name: str) -> list[cst.BaseExpression]:
    """All that a function assigns to a variable by itself."""
    return [
        node.value
        for node in walk(site.function)
        if isinstance(node, cst.Assign)
        and any(isinstance(each.target, cst.Name) and each.target.value == name for each in node.targets)
    ]
