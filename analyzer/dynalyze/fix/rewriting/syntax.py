"""What syntax alone tells of expressions."""

from __future__ import annotations

import ast

import libcst as cst

from dynalyze.fix.sites import Site, walk


def called(call: cst.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


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


def top_names(text: str) -> set[str]:
    """What stands at the top of a file: names imported, defined and assigned there, under a condition or not."""
    found: set[str] = set()
    for each in ast.parse(text).body:
        is_definition = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in [each] if is_definition else ast.walk(each):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found
