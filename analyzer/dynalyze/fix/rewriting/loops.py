"""Loops whose number of turns depends on the values of tensors: torch.while_loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.source_lines import bare_lines
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import Statements, assigned_by, block_of, bound_before, out_of_place, used_after
from dynalyze.fix.rewriting.conditions import (
    import_of_torch,
    looks_like_tensor,
    tensor_condition,
    torch_name,
    without_read,
)
from dynalyze.fix.rewriting.purity import fresh_name, names_of, pure
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Proposal, Site, statements_of

_LOOPING = ("Data-dependent", "Unsupported Tensor.item()", "Data dependent operator", "graph break in loop")


@rewriter("while-loop", *_LOOPING, rank=28)
def loop_in_graph(site: Site) -> Iterator[Proposal]:
    """`while c: x = f(x)`, `for _ in range(int(n)): x = f(x)`: torch.while_loop. What is in it must be pure."""
    statement = site.statement
    new = None
    if isinstance(statement, cst.While) and statement.orelse is None:
        new = _while(site, statement)
    elif isinstance(statement, cst.For) and statement.orelse is None:
        new = _for(site, statement)
    if new is not None:
        yield Proposal(
            "", "Let torch.while_loop go round", site.with_statement(*statements_of(new), top=import_of_torch(site))
        )


def _while(site: Site, loop: cst.While) -> str | None:
    condition = tensor_condition(site, loop.test)
    carried = _carried(site, loop)
    if condition is None or carried is None:
        return None
    torch, asked = torch_name(site), condition.tensor
    if condition.static is not None:
        asked = f"{torch}.logical_and({asked}, {torch}.as_tensor({condition.static}))"
    counters = {name: f"{torch}.tensor({name})" for name in carried if site.values[name].kind == "int"}
    return _written(site, loop, [name for name in carried if name not in counters], asked, [], counters)


def _for(site: Site, loop: cst.For) -> str | None:
    """A `for` over a range whose number of turns is read from a tensor; its variable is one then."""
    turns = _turns(site, loop.iter)
    carried = _carried(site, loop)
    if turns is None or carried is None or not isinstance(loop.target, cst.Name):
        return None
    turn = loop.target.value
    if used_after(site, turn, loop) or any(site.values[each].kind == "int" for each in [*carried]) or turn in carried:
        return None
    taken = names_of(site.function)
    if turn == "_":
        turn = fresh_name("turn", taken)
    count = fresh_name("turns", taken)
    start = f"{torch_name(site)}.zeros_like({count})"
    loop_lines = _written(site, loop, carried, f"{turn} < {count}", [f"{turn} = {turn} + 1"], {turn: start})
    return f"{count} = {turns}\n{loop_lines}"


def _turns(site: Site, node: cst.BaseExpression) -> str | None:
    """The tensor that a range is as long as; `int` cuts it to whole numbers, as `long` does."""
    if not isinstance(node, cst.Call) or called(node) != "range" or len(node.args) != 1:
        return None
    given = node.args[0].value
    whole = isinstance(given, cst.Call) and isinstance(given.func, cst.Name) and called(given) == "int"
    if whole and isinstance(given, cst.Call) and len(given.args) == 1:
        given = given.args[0].value
    bare = without_read(given)
    if bare is given and not looks_like_tensor(site, bare):
        return None
    code = site.code(bare)
    simple = isinstance(bare, cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    return f"{code if simple else f'({code})'}.long()"


def _carried(site: Site, loop: cst.While | cst.For) -> list[str] | None:
    """The variables that go from turn to turn: tensors, all of them known before the loop."""
    body = _body(site, loop)
    names = None if body is None else assigned_by(body)
    if body is None or not names or not all(map(pure, body)):
        return None
    known = site.values
    bound = [each for each in names if bound_before(site, loop, each)]
    carried = [each for each in bound if each in known and known[each].kind in ("tensor", "int")]
    if carried != bound or any(used_after(site, each, loop) for each in names if each not in bound):
        return None
    return carried


def _body(site: Site, loop: cst.While | cst.For) -> Statements | None:
    body = block_of(loop.body)
    return None if body is None else out_of_place(site, body)


def _written(
    site: Site, loop: cst.While | cst.For, carried: list[str], condition: str, more: list[str], starts: dict[str, str]
) -> str:
    taken = names_of(site.function)
    goes_on, step = fresh_name("goes_on", taken), fresh_name("step", taken)
    names = [*starts, *carried]
    takes = ", ".join(names)
    body = _body(site, loop)
    assert body is not None
    lines = [line for each in body for line in bare_lines(site.code(each).strip("\n"))]
    inside = "".join(f"    {line}\n" for line in [*lines, *more])
    handed = ", ".join(f"{name}.clone()" for name in names)
    comma = "," if len(names) == 1 else ""
    given = ", ".join([*starts.values(), *carried])
    goes_in = isinstance(loop, cst.For)
    turned = ["_" if goes_in and name in starts else fresh_name(f"{name}_turned", taken) for name in names]
    started, torch = fresh_name("started", taken), torch_name(site)
    # torch's own gradient of a loop that makes no turn is wrong (seen on 2.13): it is left out then.
    chosen = "".join(
        f"{name} = {torch}.where({started}, {after}, {name})\n"
        for name, after in zip(names, turned, strict=True) if after != "_"
    )  # fmt: skip
    return (
        f"def {goes_on}({takes}):\n    return {condition}\n"
        f"def {step}({takes}):\n{inside}    return {handed}{comma}\n"
        f"{started} = {goes_on}({given})\n"
        f"{', '.join(turned)}{comma} = {torch}.while_loop({goes_on}, {step}, ({given}{comma}))\n{chosen}"
    )
