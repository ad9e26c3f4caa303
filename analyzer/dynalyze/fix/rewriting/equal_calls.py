"""Calls that cannot be traced, with another call in their place that does the very same and can be."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, looks_like_tensor, torch_name
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.signatures import giving
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_COLLECTIVES = "torch.distributed."


@rewriter("close-as-tensor", "Data dependent operator", "Data-dependent", rank=13)
def ask_with_a_tensor(site: Site) -> Iterator[Proposal]:
    """`if torch.allclose(x, y):`: `if torch.isclose(x, y).all():`, a tensor that the branch can then be chosen by."""
    torch = torch_name(site)
    changes: Changes = {}
    for test in (node.test for node in walk(site.statement) if isinstance(node, cst.If | cst.IfExp | cst.While)):
        for call in (node for node in walk(test) if isinstance(node, cst.Call) and called(node) == "allclose"):
            if not isinstance(call.func, cst.Attribute):
                continue
            of = call.func.value
            if site.code(of) == torch or looks_like_tensor(site, of):
                each = call.with_changes(func=call.func.with_changes(attr=cst.Name("isclose")))
                changes[call] = cst.Call(cst.Attribute(each, cst.Name("all")))
    if changes:
        yield Proposal("", "Ask whether all are close by a tensor", site.with_nodes(changes))


@rewriter("wait-at-once", "async_op=True for distributed collectives", "Unsupported method call", rank=13)
def wait_at_once(site: Site) -> Iterator[Proposal]:
    """`dist.all_reduce(x, async_op=True).wait()`: `dist.all_reduce(x)`."""
    changes: Changes = {}
    for wait in (node for node in walk(site.statement) if isinstance(node, cst.Expr)):
        call = _waited_for(wait.value)
        if call is None or not function_name(site, call).startswith(_COLLECTIVES):
            continue
        others = [each for each in call.args if each.keyword is None or each.keyword.value != "async_op"]
        if len(others) == len(call.args) - 1:
            last = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in others[-1:]]
            changes[wait.value] = call.with_changes(args=[*others[:-1], *last])
    if changes:
        yield Proposal("", "Let the collective wait itself", site.with_nodes(changes))


@rewriter("sort-by-key", "sort with non-constant keys", rank=13)
def sort_items_by_key(site: Site) -> Iterator[Proposal]:
    """`sorted(kwargs.items())`: by the keys, of which there are no two alike, so that values are never compared."""
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "sorted"):
        items = call.args[0].value if call.args and call.args[0].keyword is None else None
        is_reversed = [each.keyword.value for each in call.args[1:] if each.keyword is not None] == ["reverse"]
        if not isinstance(items, cst.Call) or called(items) != "items" or items.args:
            continue
        if isinstance(items.func, cst.Attribute) and (len(call.args) == 1 or (len(call.args) == 2 and is_reversed)):
            changes[call] = giving(call, {"key": "lambda item: item[0]"})
    if changes:
        yield Proposal("", "Sort the items by their keys, as it does anyway", site.with_nodes(changes))


def _waited_for(node: cst.BaseExpression) -> cst.Call | None:
    """`f(x)` of `f(x).wait()`."""
    if (
        not isinstance(node, cst.Call)
        or called(node) != "wait"
        or node.args
        or not isinstance(node.func, cst.Attribute)
    ):
        return None
    return node.func.value if isinstance(node.func.value, cst.Call) else None
