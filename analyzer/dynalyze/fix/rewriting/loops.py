"""Loops whose number of turns depends on the values of tensors: torch.while_loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.source_lines import bare_lines
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import Statements, assigned_by, block_of, bound_before, out_of_place, used_after
from dynalyze.fix.rewriting.conditions import import_of_torch, tensor_condition, torch_name
from dynalyze.fix.rewriting.purity import fresh_name, names_of, pure
from dynalyze.fix.sites import Proposal, Site, statements_of

_LOOPING = ("Data-dependent", "Unsupported Tensor.item()", "Data dependent operator", "graph break in loop")


@rewriter("while-loop", *_LOOPING, rank=28)
def loop_in_graph(site: Site) -> Iterator[Proposal]:
    """`while c: x = f(x)`: torch.while_loop. What is in it must be pure."""
    loop, torch = site.statement, torch_name(site)
    if not isinstance(loop, cst.While) or loop.orelse is not None or (block := block_of(loop.body)) is None:
        return
    body = out_of_place(site, block)
    condition, carried = tensor_condition(site, loop.test), _carried(site, loop, body)
    if condition is None or carried is None:
        return
    asked = condition.tensor
    if condition.static is not None:
        asked = f"{torch}.logical_and({asked}, {torch}.as_tensor({condition.static}))"
    new = statements_of(_written(site, body, carried, asked))
    yield Proposal("", "Let torch.while_loop go round", site.with_statement(*new, top=import_of_torch(site)))


def _carried(site: Site, loop: cst.While, body: Statements) -> list[str] | None:
    """The variables that go from turn to turn, whole numbers first: all of them known before the loop."""
    names = assigned_by(body)
    if not names or not all(map(pure, body)):
        return None
    known = site.values
    bound = [each for each in names if bound_before(site, loop, each)]
    carried = [each for each in bound if each in known and known[each].kind in ("tensor", "int")]
    if carried != bound or any(used_after(site, each, loop) for each in names if each not in bound):
        return None
    return sorted(carried, key=lambda name: known[name].kind != "int")


def _written(site: Site, body: Statements, names: list[str], condition: str) -> str:
    taken = names_of(site.function)
    goes_on, step = fresh_name("goes_on", taken), fresh_name("step", taken)
    takes = ", ".join(names)
    inside = "".join(f"    {line}\n" for each in body for line in bare_lines(site.code(each).strip("\n")))
    handed = ", ".join(f"{name}.clone()" for name in names)
    comma = "," if len(names) == 1 else ""
    torch = torch_name(site)
    given = ", ".join(f"{torch}.tensor({name})" if site.values[name].kind == "int" else name for name in names)
    turned = [fresh_name(f"{name}_turned", taken) for name in names]
    started = fresh_name("started", taken)
    # torch's own gradient of a loop that makes no turn is wrong (seen on 2.13): it is left out then.
    chosen = "".join(
        f"{name} = {torch}.where({started}, {after}, {name})\n" for name, after in zip(names, turned, strict=True)
    )
    return (
        f"def {goes_on}({takes}):\n    return {condition}\n"
        f"def {step}({takes}):\n{inside}    return {handed}{comma}\n"
        f"{started} = {goes_on}({given})\n"
        f"{', '.join(turned)}{comma} = {torch}.while_loop({goes_on}, {step}, ({given}{comma}))\n{chosen}"
    )
