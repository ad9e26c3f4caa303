"""Guards of code that does nothing where nothing is chosen: `if rows.numel() == 0: continue`, `if mask.any():`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import block_of, used_after
from dynalyze.fix.rewriting.conditions import without_read
from dynalyze.fix.rewriting.masked import MASKED, is_boolean
from dynalyze.fix.rewriting.purity import assigned, pure
from dynalyze.fix.rewriting.syntax import called, number
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_ADDING = ("index_add_", "index_copy_")
_RAISING = {"max", "min", "argmax", "argmin", "item", "median", "amax", "amin", "stack", "cat", "quantile"}
"""What raises where there are no rows."""
_NONE, _SOME = (cst.Equal, cst.LessThan), (cst.GreaterThan, cst.NotEqual, cst.GreaterThanEqual)


@rewriter("unguarded", *MASKED, "Consider annotating your code using torch._check", rank=19)
def without_guard(site: Site) -> Iterator[Proposal]:
    """`if rows.numel() == 0: continue` in a loop, `if mask.any(): x[mask] = ...`: without the condition, where what it
    guards goes through the rows, or the mask, alone.
    """
    branch = site.statement
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return
    asked, body = _asked(site, branch.test), block_of(branch.body)
    if asked is None or body is None or isinstance(site.parents[branch], cst.If):
        return
    key, where_some = asked
    guarded: Sequence[cst.BaseStatement] = body if where_some else site.following
    if not where_some and not _continues(site, branch, body):
        return
    if not _only_where(site, guarded, key):
        return
    changes: Changes = {branch: _moved(branch, body) if where_some else None}
    lines = [site.range_of(each)[0] for each in (*body[:1], *site.following[:1])]
    yield Proposal("", f"Do it for any number of rows, none included: nothing happens where `{key}` chooses nothing",
                   site.with_nodes(changes), sides=tuple(lines))  # fmt: skip


def _moved(branch: cst.If, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    first, *others = body
    assert isinstance(first, cst.SimpleStatementLine)
    return [first.with_changes(leading_lines=[*branch.leading_lines, *first.leading_lines]), *others]


def _continues(site: Site, branch: cst.If, body: Sequence[cst.BaseStatement]) -> bool:
    block = site.parents[branch]
    in_loop = isinstance(block, cst.IndentedBlock) and isinstance(site.parents[block], cst.For | cst.While)
    only = body[0] if len(body) == 1 else None
    return in_loop and isinstance(only, cst.SimpleStatementLine) and isinstance(only.body[0], cst.Continue)


def _asked(site: Site, test: cst.BaseExpression) -> tuple[str, bool] | None:
    """What is asked whether it chooses anything, as source, and whether the condition holds where it does."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _asked(site, test.expression)
        return None if inner is None else (inner[0], not inner[1])
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        operator, right = test.comparisons[0].operator, number(test.comparisons[0].comparator)
        key = _counted(site, test.left)
        one = isinstance(operator, cst.GreaterThanEqual | cst.LessThan)
        if key is None or right != int(one) or not isinstance(operator, (*_NONE, *_SOME)):
            return None
        return key, isinstance(operator, _SOME)
    key = _counted(site, test) or _any_of(site, test, "any")
    return None if key is None else (key, True)


def _counted(site: Site, node: cst.BaseExpression) -> str | None:
    """`rows` of `rows.numel()`, `len(rows)`, `rows.shape[0]`, `rows.size(0)`; `mask` of `mask.sum()`."""
    code = site.code(node)
    for each in walk(node, lambda one: isinstance(one, cst.Name)):
        name = site.code(each)
        if code in (f"{name}.numel()", f"len({name})", f"{name}.shape[0]", f"{name}.size(0)", f"{name}.nelement()"):
            return name
    return _any_of(site, node, "sum")


def _any_of(site: Site, node: cst.BaseExpression, name: str) -> str | None:
    """`mask` of `mask.any()`, `torch.any(mask)` and `mask.any().item()`."""
    call = without_read(node)
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and called(call) == "bool" and call.args:
        call = call.args[0].value
    if not isinstance(call, cst.Call) or called(call) != name or not isinstance(call.func, cst.Attribute):
        return None
    mask = call.args[0].value if len(call.args) == 1 else call.func.value
    return site.code(mask) if len(call.args) < 2 and is_boolean(site, mask) else None


def _only_where(site: Site, statements: Sequence[cst.BaseStatement], key: str) -> bool:
    """Whether statements do nothing where nothing is chosen: they change tensors through what is chosen alone, and
    give values to variables that nothing else reads.
    """
    keys, changing = {key}, 0
    for each in statements:
        only = each.body[0] if isinstance(each, cst.SimpleStatementLine) and len(each.body) == 1 else None
        calls = {called(call) for call in walk(each) if isinstance(call, cst.Call)}
        if only is None or calls & _RAISING:
            return False
        found = assigned(each)
        if found is not None:
            if not pure(each) or any(used_after(site, name, *statements) for name in found[0]):
                return False
            if calls & {"nonzero", "where"} and keys & {site.code(part) for part in walk(found[1])}:
                keys.update(found[0])
        elif not _through(site, only, keys):
            return False
        else:
            changing += 1
    return changing > 0


def _through(site: Site, only: cst.BaseSmallStatement, keys: set[str]) -> bool:
    """`x[rows] = ...`, `x[rows] += ...`, `x.index_add_(0, rows, ...)`."""
    if isinstance(only, cst.Expr) and isinstance(only.value, cst.Call):
        call = only.value
        plain = called(call) in _ADDING and len(call.args) >= len(("dim", "index", "source"))
        return plain and site.code(call.args[1].value) in keys and all(pure(each) for each in call.args)
    target = only.target if isinstance(only, cst.AugAssign) else None
    if isinstance(only, cst.Assign) and len(only.targets) == 1:
        target = only.targets[0].target
    if not isinstance(target, cst.Subscript) or not pure(only):
        return False
    index = target.slice[0].slice
    return isinstance(index, cst.Index) and site.code(index.value) in keys
