"""Reductions of the elements that a boolean mask chooses: of all, with the others left out by the mask."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.masked import MASKED, Masked, is_boolean, masked_of
from dynalyze.fix.rewriting.syntax import bracketed, called, number
from dynalyze.fix.sites import Proposal, Site, walk

_REDUCED = ("sum", "mean", "any", "all")


@rewriter("masked-reduction", *MASKED, rank=16)
def reduce_under_mask(site: Site) -> Iterator[Proposal]:
    """`x[mask].sum()`: of the whole tensor, with 0 where the mask does not hold; `mean()` alike."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(node, cst.Call)
        text = _reduced(site, node)
        if text is not None:
            changes[node] = cst.parse_expression(text)
    if changes:
        yield Proposal(
            "", "Reduce the whole tensor, with what the mask leaves out set to what changes nothing",
            site.with_nodes(dict(changes), import_of_torch(site)),
        )  # fmt: skip


def _reduced(site: Site, call: cst.Call) -> str | None:
    name = called(call)
    if name not in _REDUCED or not isinstance(call.func, cst.Attribute):
        return None
    chosen, rest = call.func.value, call.args
    if isinstance(chosen, cst.Name) and chosen.value == torch_name(site) and call.args:
        chosen, rest = call.args[0].value, call.args[1:]
    masked = masked_of(site, chosen)
    if masked is None:
        return None
    dims = _over(masked, rest)
    return None if dims is None else _over_all(site, masked, name, dims)


def _over(masked: Masked, args: object) -> str | None:
    """The dimensions to reduce; None where the call asks for something that cannot be said of the whole tensor."""
    assert isinstance(args, list | tuple)
    if not args:
        return ""
    given = args[0]
    first = (len(args) == 1 and given.keyword is None) or (given.keyword is not None and given.keyword.value == "dim")
    if not first or number(given.value) != 0:
        return None
    return "0" if masked.mask_dims == 1 else str(tuple(range(masked.mask_dims)))


def _over_all(site: Site, masked: Masked, name: str, dims: str) -> str | None:
    known = site.value(masked.tensor)
    boolean = is_boolean(site, masked.tensor)
    code, mask = bracketed(site, masked.tensor), masked.wide(site)
    if name in ("any", "all"):
        if not boolean:
            return None
        return f"({code} & {mask}).any({dims})" if name == "any" else f"({code} | ~{mask}).all({dims})"
    filled = masked.filled(site)
    if name == "sum":
        return f"{filled}.sum({dims})"
    if known is not None and known.dtype in ("float16", "bfloat16"):
        return None  # The sum may be infinite where the mean is not, and the count is no such number.
    count = f"{bracketed(site, masked.mask)}.sum()"
    if masked.dims != masked.mask_dims and not dims:
        count = f"{mask}.expand_as({code}).sum()"
    return f"{filled}.sum({dims}) / {count}"
