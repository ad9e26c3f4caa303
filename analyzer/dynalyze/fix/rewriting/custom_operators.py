"""What a function works out of values where these decide how much it makes or what it does: positions of tokens and of
patches of images, boxes that overlap, the best assignment as SciPy finds it, crops. From some statement on it is a
function of its own, and in compiled code an operator of torch, with a gradient where one goes through.

It runs as it is there. Where it makes sizes that are not known before, torch learns them when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import cast

import libcst as cst

from dynalyze.capture.fixing import RETURNED
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.computing import WHOLE, Function, enclosing
from dynalyze.fix.rewriting.conditions import torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.operator_source import new_size
from dynalyze.fix.rewriting.tails import MAYBE, REAL, Tail
from dynalyze.fix.rewriting.tails_of_lists import TailOfList
from dynalyze.fix.rewriting.taken import TENSOR, TENSORS, held_by, kind_of, may_lack, taken_by
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Proposal, Site, Value

_CUT_OFF = ("from_numpy", "tensor")
_HOST = ("attempted to trace numpy", "Attempted to call function marked as skipped", "failed to convert numpy",
         "Attempted to inline function marked as skipped", "Unsupported function call", "Tensor.numpy()")  # fmt: skip
_COMPARED = ("sort with non-constant keys", "Unsupported key type for itertools.groupby", "list_richcompare_nonconst")
"""Where Python itself compares tensors with each other."""
_OTHERS = ("Attempted to use `torch.nn.functional.one_hot`", "Attempted to wrap sparse Tensor",
           "Attempted to wrap strided NestedTensor")  # fmt: skip
"""Where torch makes what Dynamo knows no tensor for."""


@rewriter("whole-numbers", *READS, rank=40, outer=True)
def work_out_whole_numbers(site: Site) -> Iterator[Proposal]:
    """`positions(ids, grid)`, which goes by the values of whole numbers and makes tensors of known size."""
    tail = tail_of(site, WHOLE)
    if tail is not None and not tail.unknown:
        yield Proposal("", tail.title, tail.in_operator(site))


@rewriter("sized-by-data", *READS, *_HOST, *_COMPARED, *_OTHERS, rank=45, outer=True)
def work_out_in_an_operator(site: Site) -> Iterator[Proposal]:
    """`for t, h, w in grid.tolist(): made.append(torch.arange(t * h * w))` and what follows, up to the return."""
    tail = tail_of(site)
    if tail is None:
        return
    late = bool(tail.unknown)
    alike = replace(tail, no_chance=1)
    for least in (0, 2) if tail.unknown else (0,):  # Slices of no or one element are often more than torch can tell.
        few = ", which raises in compiled code where a size is below 2" if least else ""
        source = tail.in_operator(site, least)
        yield Proposal("", tail.title + few, source, late=late, last_resort=tail.differentiable)
    if len(alike.unknown) < len(tail.unknown):
        told = " and tell torch which sizes are the same, which raises in compiled code where they are not"
        source = alike.in_operator(site)
        yield Proposal("", tail.title + told, source, late=late, last_resort=tail.differentiable)


def tail_of(site: Site, only: Sequence[str] = ()) -> Tail | None:
    """The longest one that holds the line and only computes with whole numbers; else, without `only` these, the
    shortest one that computes with any, where no gradient goes through what it makes, or through all of it.
    """
    whole, returned = enclosing(site), site.values.get(RETURNED)
    made = () if returned is None else _tensors_of(returned)
    if whole is None or returned is None or not made or not _can_end_otherwise(site, whole, len(made)):
        return None
    statements = whole.node.body
    is_cut_off = _is_cut_off(made, cast(ast.Return, statements[-1]).value)
    text = ast.get_docstring(whole.node) is not None
    starts = [start for start, first in enumerate(statements) if first.lineno <= site.line and start >= text]
    is_real = all(each.dtype.startswith(REAL) for each in made)
    innermost = site.called is None or tail_of(site.called) is None
    of_any = not only and innermost and (is_cut_off or is_real)
    ways = chain(((WHOLE, start) for start in starts), (((), start) for start in reversed(starts) if of_any))
    found = (_tail_from(site, whole, start, kinds, made, is_cut_off=is_cut_off) for kinds, start in ways)
    tail, given = next((each for each in found if each is not None), (None, {}))
    return TailOfList.of(tail, returned, given) if tail is not None and returned.kind == "list" else tail


def _tensors_of(returned: Value) -> tuple[Value, ...]:
    """The plain tensors that a result is, a tuple of them or a list of them or of such tuples; else none."""
    made = (returned,) if returned.kind == "tensor" else returned.items
    if returned.kind == "list":
        made = tuple(one for each in returned.items for one in each.items or (each,))
    return made if all(each.kind == "tensor" and each.name == TENSOR for each in made) else ()


def _can_end_otherwise(site: Site, whole: Function, results: int) -> bool:
    """Whether a function has one return, at its end, of so many results, and the operator's names are free."""
    body, last = site.function.body, whole.node.body[-1]
    tops, torch = top_names(site.text), torch_name(site)
    if "." in torch or _names_of(whole) & tops or not isinstance(last, ast.Return):
        return False
    if "_new_size" in tops and new_size(torch) not in site.text:
        return False
    if not isinstance(body, cst.IndentedBlock) or len(body.body) != len(whole.node.body):
        return False
    return not isinstance(last.value, ast.Tuple) or len(last.value.elts) == results


def _tail_from(
    site: Site, whole: Function, start: int, kinds: Sequence[str], made: tuple[Value, ...], *, is_cut_off: bool
) -> tuple[Tail, Mapping[str, Value]] | None:
    """The statements from one on with what they take, where they only compute with tensors of these dtypes, or any."""
    given = taken_by(site, whole, start, kinds)
    held = None if given is None else held_by(site, whole, start, [*given], kinds)
    if given is None or held is None:
        return None
    takes = {each: kind_of(value) or value.kind for each, value in given.items()}
    takes |= {each: kind for each, (_, kind) in held.chains.items()}
    if kinds:
        takes |= {each: MAYBE for each in may_lack(whole, start) if takes.get(each) in (TENSOR, "NoneType")}
    known = {**given, **{each: site.values[text] for each, (text, _) in held.chains.items()}}
    known = {each: value for each, value in known.items() if takes[each] == TENSOR}
    moved = any(each.dtype.startswith(REAL) for each in known.values()) and not is_cut_off
    # Of the tensors in a list no gradient is made.
    if not known or "NoneType" in takes.values() or (moved and TENSORS in takes.values()):
        return None
    names = {each: text for each, (text, _) in held.chains.items()}
    return Tail(whole, start, takes, names, held.methods, known, made, moved), given


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
