"""Assignments through a boolean mask: `x[mask] = ...`, and what guards them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, looks_like_tensor, torch_name
from dynalyze.fix.rewriting.masked import MASKED, Masked, masked_of
from dynalyze.fix.rewriting.purity import UPDATES, elementwise, total
from dynalyze.fix.rewriting.syntax import ATOMS
from dynalyze.fix.sites import Proposal, Site, replaced, statements_of, walk


@rewriter("masked-assignment", *MASKED, rank=16)
def assign_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask] = y[mask]`, `x[mask] += w`: `x.copy_(torch.where(mask, ..., x))`."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return
    text = assigned_under_mask(site, statement.body[0])
    if text is not None:
        yield Proposal(
            "", "Choose between the whole tensors in the place of copying through the mask",
            site.with_statement(*statements_of(text), top=import_of_torch(site)),
        )  # fmt: skip


def assigned_under_mask(site: Site, only: cst.BaseSmallStatement, condition: str = "") -> str | None:
    """`x[mask] = ...` as a copy of the whole tensor, which keeps what it was where a condition does not hold either."""
    target = only.target if isinstance(only, cst.AugAssign) else None
    if isinstance(only, cst.Assign) and len(only.targets) == 1:
        target = only.targets[0].target
    masked = masked_of(site, target) if target is not None else None
    if masked is None or not isinstance(only, cst.Assign | cst.AugAssign):
        return None
    value = _whole(site, only.value, masked)
    if value is None:
        return None
    name = site.code(masked.tensor)
    if isinstance(only, cst.AugAssign):
        operator = UPDATES.get(type(only.operator))
        if operator is None:
            return None
        value = f"{name} {operator} {value}"
    chosen = f"{condition} & {masked.wide(site)}" if condition else masked.wide(site)
    return f"{name}.copy_({torch_name(site)}.where({chosen}, {value}, {name}))\n"


def _whole(site: Site, value: cst.BaseExpression, masked: Masked) -> str | None:
    """What is assigned through a mask, for the whole tensor: without the mask; None where it is no such thing."""
    mask = site.code(masked.mask)
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(value, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        inner = masked_of(site, node)
        if inner is None or site.code(inner.mask) != mask or inner.dims != masked.dims:
            return None
        changes[node] = inner.tensor
    bare = replaced(value, {node: cst.Name("x") for node in changes})
    if not total(bare) or not elementwise(bare):
        return None
    within = {part for changed in changes for part in walk(changed)}
    kept = [each for each in walk(value) if isinstance(each, cst.Name | cst.Attribute) and each not in within]
    for each in kept:
        found = site.value(each)
        if found is not None and found.kind == "tensor":
            # One value for all, or one for each place behind the mask's dimensions.
            if found.dims is None or found.dims > masked.dims - masked.mask_dims:
                return None
        elif found is None and isinstance(each, cst.Name) and looks_like_tensor(site, each):
            return None
    code = cst.Module([]).code_for_node(replaced(value, changes))
    return code if isinstance(value, ATOMS) else f"({code})"
