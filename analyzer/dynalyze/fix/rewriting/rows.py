"""Rows where a condition holds, as indices: with the condition as a mask in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch
from dynalyze.fix.rewriting.masked import MASKED, Masked, Replace, bracketed, dims_of, is_boolean, replaced, times
from dynalyze.fix.rewriting.purity import names_of, number, total, total_of_rows
from dynalyze.fix.sites import Proposal, Site, statements_of, walk


@rewriter("rows-as-mask", *MASKED, rank=17)
def rows_as_mask(site: Site) -> Iterator[Proposal]:
    """`rows = torch.nonzero(c).squeeze(-1)` that are filled, or added to, with the condition as a mask."""
    found = _rows(site)
    if found is None:
        return
    name, condition = found
    users = [each for each in site.following if name in names_of(each)]
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    guards: dict[cst.CSTNode, list[cst.CSTNode]] = {}
    for user in users:
        for call in walk(user, lambda each: isinstance(each, cst.Call)):
            assert isinstance(call, cst.Call)
            text = _with_rows(site, call, name)
            if text is not None:
                changes[call] = cst.parse_expression(text)
    for user in users:
        if isinstance(user, cst.If) and _asks_for_any(site, user, name) and _within_all(user.body, changes):
            unwrapped = [each.visit(Replace(changes)) for each in user.body.body]
            changes = {each: new for each, new in changes.items() if each not in walk(user)}
            guards[user] = [each for each in unwrapped if isinstance(each, cst.CSTNode)]
    left = sum(times(each, name) for each in users) - sum(times(each, name) for each in [*changes, *guards])
    everywhere = times(site.function, name) - times(site.statement, name)
    if not (changes or guards) or left or everywhere != sum(times(each, name) for each in users):
        return
    (mask,) = statements_of(f"{name} = {site.code(condition)}\n")
    yield Proposal(
        "", "Take the condition as a mask, in the place of the rows where it holds",
        site.with_nodes({**changes, **guards, site.statement: mask}, import_of_torch(site)),
    )  # fmt: skip


def _asks_for_any(site: Site, branch: cst.If, name: str) -> bool:
    """`if len(rows) > 0:`, `if rows.numel():`, and nothing else where there are none."""
    code = re.sub(r"\s", "", site.code(branch.test))
    counted = (f"len({name})", f"{name}.numel()", f"{name}.shape[0]", f"{name}.size(0)")
    return branch.orelse is None and code in {each + more for each in counted for more in ("", ">0", "!=0", ">=1")}


def _within_all(body: cst.BaseSuite, changes: dict[cst.CSTNode, cst.CSTNode]) -> bool:
    """Whether each statement of a block is one of these calls."""
    return all(
        isinstance(each, cst.SimpleStatementLine)
        and all(isinstance(small, cst.Expr) and small.value in changes for small in each.body)
        for each in body.body
    )


def _rows(site: Site) -> tuple[str, cst.BaseExpression] | None:
    """The name of the rows, and the condition of one dimension whose true places they are."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    only = statement.body[0]
    if not isinstance(only, cst.Assign) or len(only.targets) != 1:
        return None
    target, value = only.targets[0].target, only.value
    alone = isinstance(target, cst.Tuple) and len(target.elements) == 1
    name = target.elements[0].value if alone and isinstance(target, cst.Tuple) else target
    if not isinstance(name, cst.Name):
        return None
    condition = _indices_of(value, in_tuple=alone)
    if condition is None or dims_of(site, condition) != 1 or not is_boolean(site, condition) or not total(condition):
        return None
    return name.value, condition


def _indices_of(value: cst.BaseExpression, *, in_tuple: bool) -> cst.BaseExpression | None:
    """`c` of `torch.where(c)[0]`, `torch.nonzero(c).squeeze(-1)`, `c.nonzero(as_tuple=True)[0]`, ..."""
    inner = value
    if isinstance(value, cst.Subscript):
        if in_tuple or cst.Module([]).code_for_node(value).split("[")[-1] != "0]":
            return None
        inner, in_tuple = value.value, True
    elif isinstance(value, cst.Call) and called(value) in ("squeeze", "flatten", "view", "reshape", "squeeze_"):
        ends = [number(each.value) for each in value.args]
        if not isinstance(value.func, cst.Attribute) or ends not in ([-1], [1], [], [0]):
            return None
        if ends == [] and called(value) != "flatten":
            return None  # One row alone would have no dimension at all.
        inner = value.func.value
    if not isinstance(inner, cst.Call) or not isinstance(inner.func, cst.Attribute):
        return None
    plain = [each.value for each in inner.args if each.keyword is None]
    as_tuple = len(plain) < len(inner.args)
    if called(inner) == "where" and len(plain) == 1 and in_tuple:
        return plain[0]
    if called(inner) != "nonzero" or as_tuple != in_tuple or len(inner.args) - len(plain) > 1:
        return None
    return plain[0] if plain else inner.func.value


def _with_rows(site: Site, call: cst.Call, rows: str) -> str | None:
    """`x.index_fill(0, rows, v)` and `x.index_add_(0, rows, f(y[rows]))` with `rows` as a mask."""
    if not isinstance(call.func, cst.Attribute) or len(call.args) != 3 or any(each.keyword for each in call.args):
        return None
    first, second, third = (each.value for each in call.args)
    name, tensor = called(call), call.func.value
    dims = dims_of(site, tensor)
    if number(first) != 0 or not isinstance(second, cst.Name) or second.value != rows or dims is None or dims < 1:
        return None
    code, mask = bracketed(site, tensor), Masked(tensor, second, dims, 1).wide(site)
    if name in ("index_fill", "index_fill_") and rows not in names_of(third):
        return f"{code}.masked_fill{'_' * name.endswith('_')}({mask}, {site.code(third)})"
    if name not in ("index_add", "index_add_"):
        return None
    of_rows: dict[cst.CSTNode, cst.CSTNode] = {}  # Rows that are left out must be numbers, whatever they are.
    for node in walk(third, lambda each: isinstance(each, cst.Subscript)):
        assert isinstance(node, cst.Subscript)
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == rows:
            dims = dims_of(site, node.value)
            if not dims:
                return None
            filled = cst.parse_expression(Masked(node.value, second, dims, 1).filled(site))
            whole = cst.SubscriptElement(cst.Slice(None, None), comma=node.slice[0].comma)
            more = [whole, *node.slice[1:]]
            of_rows[node] = filled if len(more) == 1 else node.with_changes(value=filled, slice=more)
    bare = replaced(third, dict.fromkeys(of_rows, cst.Name("x")))
    if not of_rows or rows in names_of(bare) or not total_of_rows(site, bare):
        return None
    text = f"({cst.Module([]).code_for_node(replaced(third, of_rows))}).masked_fill(~{mask}, 0)"
    return f"{code}.add{'_' * name.endswith('_')}({text})"
