"""Arguments of torch's functions and modules that have to be numbers of Python, or that spare a look at data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.numbers import is_number
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_TRANSFORMER = "torch.nn.modules.transformer.Transformer"
_CAUSAL = {
    _TRANSFORMER + "Encoder": {"mask": ("is_causal", 1)},
    _TRANSFORMER + "Decoder": {"tgt_mask": ("tgt_is_causal", 2)},
    _TRANSFORMER: {"src_mask": ("src_is_causal", 2), "tgt_mask": ("tgt_is_causal", 3)},
}
"""Masks that these modules look at, unless they are told whether it is the causal one; and the places of the masks."""


@rewriter("symbolic-flag", "TypeError when making fake tensor call", rank=11)
def decide_flag(site: Site) -> Iterator[Proposal]:
    """`attention(q, k, v, is_causal=n > 1)`, where n is a size: `is_causal=True if n > 1 else False`."""
    changes: Changes = {}
    for call in _calls(site):
        for each in call.args:
            if _is_flag(site, each.value):
                changes[each.value] = cst.IfExp(test=each.value, body=cst.Name("True"), orelse=cst.Name("False"))
    if changes:
        yield Proposal("", "Decide what hangs on a size before it is passed", site.with_nodes(changes))


def _is_flag(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression is True or False, and nothing that only counts as such: comparisons of no tensors."""
    if isinstance(node, cst.BooleanOperation):
        return _is_flag(site, node.left) and _is_flag(site, node.right)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not) and _is_flag(site, node.expression)
    if isinstance(node, cst.Comparison):
        sides = [node.left, *(each.comparator for each in node.comparisons)]
        named = all(isinstance(each.operator, cst.Is | cst.IsNot | cst.In | cst.NotIn) for each in node.comparisons)
        return named or all(is_number(site, each) for each in sides)
    found = site.value(node) if isinstance(node, cst.Name | cst.Attribute) else None
    return found is not None and found.kind == "bool"


@rewriter("any-mask", "Unsupported Tensor.item() call", "Data-dependent", "Data dependent operator", rank=11)
def take_any_mask(site: Site) -> Iterator[Proposal]:
    """`encoder(x, mask=mask)` of torch.nn: `is_causal=False`, which any mask is right with; it is looked at else."""
    changes: Changes = {}
    for call in _calls(site):
        found = site.value(call.func)
        masks = _CAUSAL.get(found.name, {}) if found is not None and found.kind == "nn.Module" else {}
        if any(each.star for each in call.args):
            continue
        given = {each.keyword.value for each in call.args if each.keyword is not None}
        places = sum(each.keyword is None for each in call.args)
        flags = [flag for mask, (flag, at) in masks.items() if (mask in given or at < places) and flag not in given]
        if flags:
            changes[call] = giving(call, dict.fromkeys(flags, "False"))
    if changes:
        yield Proposal("", "Say that a mask may be any one, so that nothing looks at it", site.with_nodes(changes))


def _calls(site: Site) -> Iterator[cst.Call]:
    for each in walk(site.statement):
        if isinstance(each, cst.Call):
            yield each


def giving(call: cst.Call, values: Mapping[str, str]) -> cst.Call:
    """A call with more arguments, by name, as source: each on a line of its own where the others are."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    more = [cst.Arg(cst.parse_expression(value), cst.Name(name), equal=tight) for name, value in values.items()]
    if not call.args:
        return call.with_changes(args=more)
    before, last = call.whitespace_before_args, call.args[-1]
    own_lines = isinstance(before, cst.ParenthesizedWhitespace) and isinstance(last.comma, cst.Comma)
    comma = cst.Comma(whitespace_after=before if own_lines else cst.SimpleWhitespace(" "))
    *first, final = [each.with_changes(comma=comma) for each in (last, *more)]
    final = final.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=[*call.args[:-1], *first, final])
