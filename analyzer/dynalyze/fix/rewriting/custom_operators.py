"""What a function works out of values where these decide how much it makes or what it does: positions of tokens and of
patches of images, boxes that overlap, the best assignment as SciPy finds it, crops. From some statement on it is a
function of its own, and in compiled code an operator of torch, with a gradient where one goes through.

It runs as it is there. Where it makes sizes that are not known before, the setting for operators of such sizes goes
with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.computing import READS, WHOLE, Function, enclosing
from dynalyze.fix.rewriting.conditions import torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.tails import MAYBE, REAL, Tail
from dynalyze.fix.rewriting.tails_of_lists import TailOfList
from dynalyze.fix.rewriting.taken import TENSOR, TENSORS, held_by, kind_of, may_lack, taken_by
from dynalyze.fix.settings import READS_SIZES
from dynalyze.fix.sites import Proposal, Site, Value

_CUT_OFF = ("from_numpy", "tensor", "as_tensor")
_HOST = ("attempted to trace numpy", "Attempted to call function marked as skipped", "failed to convert numpy",
         "Attempted to inline function marked as skipped", "Unsupported function call", "Tensor.numpy()")  # fmt: skip


@rewriter("whole-numbers", *READS, rank=40, outer=True)
def work_out_whole_numbers(site: Site) -> Iterator[Proposal]:
    """`positions(ids, grid)`, which goes by the values of whole numbers and makes tensors of known size."""
    tail = tail_of(site, WHOLE)
    if tail is not None and not tail.unknown:
        yield Proposal("", tail.title, tail.in_operator(site))


@rewriter("sized-by-data", *READS, *_HOST, rank=45, outer=True)
def work_out_in_an_operator(site: Site) -> Iterator[Proposal]:
    """`for t, h, w in grid.tolist(): made.append(torch.arange(t * h * w))` and what follows, up to the return."""
    tail = tail_of(site)
    if tail is None:
        return
    settings = dict(READS_SIZES) if tail.unknown else {}
    alike = replace(tail, no_chance=1)
    for least in (0, 2) if tail.unknown else (0,):  # Slices of no or one element are often more than torch can tell.
        few = ", which raises in compiled code where a size is below 2" if least else ""
        source = tail.in_operator(site, least)
        yield Proposal("", tail.title + few, source, settings=settings, last_resort=tail.differentiable)
    if len(alike.unknown) < len(tail.unknown):
        told = " and tell torch which sizes are the same, which raises in compiled code where they are not"
        source = alike.in_operator(site)
        yield Proposal("", tail.title + told, source, settings=settings, last_resort=tail.differentiable)


def tail_of(site: Site, only: Sequence[str] = ()) -> Tail | None:
    """The longest one that holds the line and only computes with whole numbers; else, without `only` these, the
    shortest one that computes with any, where no gradient goes through what it makes, or through all of it.
    """
    whole, returned = enclosing(site), site.values.get(RETURNED)
    torch = torch_name(site)
    if whole is None or "." in torch or _names_of(whole) & top_names(site.text):
        return None
    if returned is None or not isinstance(site.function.body, cst.IndentedBlock):
        return None
    made = (returned,) if returned.kind == "tensor" else returned.items
    if returned.kind == "list":
        made = tuple(one for each in returned.items for one in each.items or (each,))
    statements = whole.node.body
    if not made or any(each.kind != "tensor" or each.name != "Tensor" for each in made):
        return None
    if len(statements) != len(site.function.body.body) or not isinstance(statements[-1], ast.Return):
        return None
    returns = statements[-1].value
    if isinstance(returns, ast.Tuple) and len(returns.elts) != len(made):
        return None
    text = ast.get_docstring(whole.node) is not None
    starts = [start for start, first in enumerate(statements) if first.lineno <= site.line and start >= text]
    is_cut_off, is_real = _is_cut_off(made, returns), all(each.dtype.startswith(REAL) for each in made)
    innermost = site.called is None or tail_of(site.called) is None
    of_any = not only and innermost and (is_cut_off or is_real)
    for kinds, ordered in ((WHOLE, starts), ((), starts[::-1] if of_any else [])):
        for start in ordered:
            given = taken_by(site, whole, start, kinds)
            held = None if given is None else held_by(site, whole, start, [*given], kinds)
            if given is None or held is None:
                continue
            takes = {each: kind_of(value) or value.kind for each, value in given.items()}
            takes |= {each: kind for each, (_, kind) in held.chains.items()}
            takes |= {each: MAYBE for each in may_lack(whole, start) if takes.get(each) in (TENSOR, "NoneType")}
            known = {**given, **{each: site.values[text] for each, (text, _) in held.chains.items()}}
            known = {each: value for each, value in known.items() if takes[each] == TENSOR}
            if known and "NoneType" not in takes.values():
                moved = any(each.dtype.startswith(REAL) for each in known.values()) and not is_cut_off
                if moved and TENSORS in takes.values():  # Of these no gradient is made.
                    return None
                names = {each: text for each, (text, _) in held.chains.items()}
                tail = Tail(whole, start, takes, names, held.methods, known, made, moved)
                return TailOfList.of(tail, returned, given) if returned.kind == "list" else tail
    return None


def _names_of(function: Function) -> set[str]:
    """The names at the top of the file that the operator needs."""
    name = function.label
    return {f"_{name}_op", f"_{name}_op_fake", f"_{name}_of"}


def _is_cut_off(made: Sequence[Value], returns: ast.expr | None) -> bool:
    """Whether no gradient goes through any result: whole numbers have none, nor has what comes from numpy."""
    returned = returns.elts if isinstance(returns, ast.Tuple) else [returns]
    if all(each.dtype in WHOLE for each in made):
        return True
    return len(returned) == len(made) and all(map(_from_numbers, returned))


def _from_numbers(node: ast.expr | None) -> bool:
    """`torch.from_numpy(y).float()`, `torch.tensor(numbers)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CUT_OFF:
            return True
        node = node.func.value
    return False
