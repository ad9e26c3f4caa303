"""Calls that cannot be traced, with another call in their place that does the very same and can be."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_COLLECTIVES = "torch.distributed."


@rewriter("clone", "Attempted to copy.deepcopy a tensor", "copy.deepcopy()", rank=13)
def clone_in_place_of_deepcopy(site: Site) -> Iterator[Proposal]:
    """`copy.deepcopy(x)` of a tensor: `x.detach().clone()`, which is the same where it needs no gradient."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for call in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(call, cst.Call)
        if function_name(site, call) != "copy.deepcopy" or len(call.args) != 1:
            continue
        argument = call.args[0].value
        value = site.value(argument)
        if value is None or value.kind != "tensor" or value.name != "Tensor" or value.requires_grad:
            continue
        text = site.code(argument)
        new = f"({text}.detach().clone() if not {text}.requires_grad else {site.code(call)})"
        changes[call] = cst.parse_expression(new)
    if changes:
        yield Proposal("", "Clone the tensor instead of deep-copying it", site.with_nodes(dict(changes)))


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


@rewriter("no-leaf", "Attempted to use tensor creation function with requires_grad=True", rank=13)
def make_no_leaf(site: Site) -> Iterator[Proposal]:
    """`loss = torch.tensor(0.0, requires_grad=True)` that a function adds to: without a gradient of its own, which
    nobody can ask for. That what comes out has the gradients that it had shows in the proof.
    """
    changes: Changes = {}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call)):
        others = [each for each in call.args if each.keyword is None or each.keyword.value != "requires_grad"]
        if others and len(others) < len(call.args) and function_name(site, call).startswith("torch."):
            last = others[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            changes[call] = call.with_changes(args=[*others[:-1], last])
    if changes:
        yield Proposal("", "Make it without a gradient of its own", site.with_nodes(changes))
