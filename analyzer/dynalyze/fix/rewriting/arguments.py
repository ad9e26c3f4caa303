"""Arguments of torch's modules that spare a look at data."""

from __future__ import annotations

from collections.abc import Iterator

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
            more = cst.ensure_type(cst.parse_expression(f"f({', '.join(f'{flag}=False' for flag in flags)})"), cst.Call)
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            *first, last = [each.with_changes(comma=comma) for each in (*call.args, *more.args)]
            changes[call] = call.with_changes(args=[*first, last.with_changes(comma=call.args[-1].comma)])
    if changes:
        yield Proposal("", "Say that a mask may be any one, so that nothing looks at it", site.with_nodes(changes))
