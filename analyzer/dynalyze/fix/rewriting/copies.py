"""Copies of tensors, made the way that a graph can hold."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.sites import Proposal, Site, walk


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
