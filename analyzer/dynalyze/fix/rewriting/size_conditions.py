"""Conditions on sizes that only the data know: asked last, where what else is asked may spare the question, or answered
where the size comes from.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import torch_name
from dynalyze.fix.sites import Changes, Proposal, Site, statements_of, walk

_GUARDED = ("Consider annotating your code", "Could not guard on data-dependent")


@rewriter("size-asked-last", *_GUARDED, rank=10)
def ask_the_size_last(site: Site) -> Iterator[Proposal]:
    """`n > 1 and mask is None and causal`: `True if mask is None and causal and n > 1 else False`, as n is asked only
    where the others do not decide. All are True or False, so that the last one is as good a value as the first.
    """
    changes: Changes = {}
    for node in walk(site.statement):
        if isinstance(node, cst.BooleanOperation) and not isinstance(site.parents[node], cst.BooleanOperation):
            parts = _parts(node, type(node.operator))
            sizes = [each for each in parts if isinstance(each, cst.Comparison) and not _is_known(site, each)]
            others = [each for each in parts if each not in sizes]
            if parts[: len(sizes)] == sizes and sizes and others and all(_is_known(site, each) for each in others):
                word = " and " if isinstance(node.operator, cst.And) else " or "
                asked = word.join(site.code(each) for each in [*others, *sizes])
                changes[node] = cst.parse_expression(f"True if {asked} else False")
    if changes:
        yield Proposal("", "Ask for the size last, where nothing else decides", site.with_nodes(changes))


def check_of_two(site: Site) -> cst.BaseStatement | None:
    """A check, in compiled code, that what the statement assigns has two rows or more; None where it assigns no
    variable.
    """
    statement, torch = site.statement, torch_name(site)
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if not isinstance(only, cst.Assign) or len(only.targets) != 1:
        return None
    made = only.targets[0].target
    if not isinstance(made, cst.Name | cst.Attribute):
        return None
    (check,) = statements_of(
        f"if {torch}.compiler.is_compiling():\n    {torch}._check({site.code(made)}.shape[0] >= 2)\n"
    )
    return check


def _parts(node: cst.BaseExpression, operator: type[cst.BaseBooleanOp]) -> list[cst.BaseExpression]:
    """What is joined by one operator, in the order in which it is asked."""
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, operator):
        return [*_parts(node.left, operator), *_parts(node.right, operator)]
    return [node]


def _is_known(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is True or False whatever the data are, and raises nothing."""
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        is_none = isinstance(node.comparisons[0].operator, cst.Is | cst.IsNot)
        return is_none and isinstance(node.left, cst.Name)
    found = site.value(node) if isinstance(node, cst.Name) else None
    return found is not None and found.kind == "bool"
