"""Arguments of torch's modules that spare a look at data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.sites import Changes, Proposal, Site, walk

_TRANSFORMER = "torch.nn.modules.transformer.Transformer"
_CAUSAL = {
    _TRANSFORMER + "Encoder": {"mask": ("is_causal", 1)},
    _TRANSFORMER + "Decoder": {"tgt_mask": ("tgt_is_causal", 2)},
    _TRANSFORMER: {"src_mask": ("src_is_causal", 2), "tgt_mask": ("tgt_is_causal", 3)},
}
"""Masks that these modules look at, unless they are told whether it is the causal one; and the places of the masks."""


@rewriter("causal-mask", "Unsupported Tensor.item() call", "Data-dependent", "Data dependent operator", rank=11)
def take_any_mask(site: Site) -> Iterator[Proposal]:
    """`encoder(x, mask=mask)` of torch.nn: `is_causal=False`, which any mask is right with; it is looked at else."""
    changes: Changes = {}
    for call in walk(site.statement):
        if not isinstance(call, cst.Call):
            continue
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
