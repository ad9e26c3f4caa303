"""Tensors with a gradient of their own, made in compiled code."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.sites import Changes, Proposal, Site, walk


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
