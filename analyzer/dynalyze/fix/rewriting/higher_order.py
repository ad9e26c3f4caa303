"""Branches and loops as calls of torch.cond and torch.while_loop, which take functions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.source_lines import bare_lines
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import (
    Choice,
    assigned_by,
    bound_before,
    choice_of,
    out_of_place,
    returns_in,
    targets_of,
    used_after,
)
from dynalyze.fix.rewriting.conditions import Condition, import_of_torch, tensor_condition, torch_name
from dynalyze.fix.rewriting.purity import is_new, pure
from dynalyze.fix.rewriting.syntax import Statements, block_of, fresh_name, names_of, otherwise_of
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_LOOPING = ("Data-dependent", "Unsupported Tensor.item()", "Data dependent operator", "graph break in loop")


def own(site: Site, value: cst.BaseExpression) -> str:
    """What a side returns, as a tensor of its own: torch.cond forbids aliases."""
    code = site.code(value)
    if is_new(value) or isinstance(value, cst.Tuple):
        return code
    return f"{code}.clone()" if isinstance(value, cst.Name | cst.Attribute | cst.Subscript) else code


class Conds:
    """Branches as calls of torch.cond, also those inside their sides."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._taken = names_of(site.function)
        self._torch = torch_name(site)

    def chosen(self, condition: Condition, choice: Choice, made: frozenset[str]) -> Statements | None:
        """Two functions and the call of torch.cond. `made` are names that outer sides have assigned."""
        stem = "_".join(choice.names[:2]) or "result"
        names = [fresh_name(f"{stem}_{which}", self._taken) for which in ("if_true", "if_false")]
        operands = self._operands(choice, made)
        takes = ", ".join(operands)
        functions = [
            self._function(name, takes, choice, side, made)
            for name, side in zip(names, (choice.when_true, choice.when_false), strict=True)
        ]
        if functions[0] is None or functions[1] is None:
            return None
        given = f"({takes}{',' if len(operands) == 1 else ''})"
        call = f"{self._torch}.cond({condition.tensor}, {', '.join(names)}, {given})"
        text = f"return {call}\n" if choice.returns else f"{', '.join(choice.names)} = {call}\n"
        return [functions[0], functions[1], *statements_of(text)]

    def _function(
        self, name: str, takes: str, choice: Choice, statements: Statements, made: frozenset[str]
    ) -> cst.BaseStatement | None:
        """One side as a function. What it returns without computing it is copied: torch.cond forbids aliases."""
        lowered = self._lowered(statements, choice.returns, made)
        if lowered is None:
            return None
        (function,) = statements_of(f"def {name}({takes}):\n    pass\n")
        assert isinstance(function, cst.FunctionDef)
        if not choice.returns:
            handed = ", ".join(self._handed(each, statements) for each in choice.names)
            lowered = [*lowered, *statements_of(f"return {handed}\n")]
        return function.with_changes(body=cst.IndentedBlock(lowered))

    def _handed(self, name: str, statements: Statements) -> str:
        values = [
            small.value
            for each in statements if isinstance(each, cst.SimpleStatementLine)
            for small in each.body if isinstance(small, cst.Assign) and targets_of(small) == [name]
        ]  # fmt: skip
        made = values and not any(isinstance(each, cst.Name | cst.Attribute | cst.Subscript) for each in values)
        whole = [each for each in statements if isinstance(each, cst.SimpleStatementLine)]
        unpacked = not values and name in (assigned_by(whole) or ())
        return name if made or unpacked else f"{name}.clone()"

    def _lowered(self, statements: Statements, returns: bool, made: frozenset[str]) -> list[cst.BaseStatement] | None:
        """The statements of a side, with its branches on tensors as calls of torch.cond."""
        found: list[cst.BaseStatement] = []
        for number, each in enumerate(statements):
            if isinstance(each, cst.If):
                rest = statements[number + 1 :]
                before = [one for one in statements[:number] if not returns_in([one])]
                new = self._inner(each, rest, made | set(assigned_by(before) or ()))
                if new is None:
                    return None
                found += new
                if returns and returns_in([each]) and tensor_condition(self._site, each.test) is not None:
                    return found
            elif isinstance(each, cst.SimpleStatementLine) and isinstance(each.body[-1], cst.Return):
                value = each.body[-1].value
                assert value is not None
                found += statements_of(f"return {own(self._site, value)}\n")
            else:
                found.append(each)
        return found

    def _inner(self, branch: cst.If, rest: Statements, made: frozenset[str]) -> Statements | None:
        condition = tensor_condition(self._site, branch.test)
        body, otherwise = block_of(branch.body), otherwise_of(branch)
        if body is None or otherwise is None:
            return None
        if condition is None:
            returns = returns_in([branch])
            lowered = [self._lowered(each, returns, made) for each in (body, otherwise)]
            if lowered[0] is None or lowered[1] is None:
                return None
            orelse = cst.Else(cst.IndentedBlock(lowered[1])) if lowered[1] else None
            return [branch.with_changes(body=cst.IndentedBlock(lowered[0]), orelse=orelse, leading_lines=[])]
        choice = choice_of(self._site, branch, rest)
        if choice is None or condition.static is not None:
            return None
        return self.chosen(condition, choice, made)

    def _operands(self, choice: Choice, made: frozenset[str]) -> list[str]:
        """Tensors that a side reads and assigns, or returns unchanged: they are passed, others closed over."""
        sides = [*choice.when_true, *choice.when_false]
        assigned = {name for each in sides for node in walk(each, cst.AssignTarget) for name in names_of(node)}
        names = (node.value for each in sides for node in walk(each, cst.Name))
        read = [name for name in names if name in assigned or self._site.values.get(name) is not None]
        known = self._site.values
        return [
            name for name in dict.fromkeys([*read, *choice.names])
            if (name in known and known[name].kind == "tensor"
                and (name not in assigned or bound_before(self._site, self._site.statement, name)))
            or (name in made and name in assigned)
        ]  # fmt: skip


@rewriter("while-loop", *_LOOPING, rank=28)
def loop_in_graph(site: Site) -> Iterator[Proposal]:
    """`while c: x = f(x)` with a pure body: torch.while_loop."""
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
    yield Proposal("Let torch.while_loop go round", site.with_statement(*new, top=import_of_torch(site)))


def _carried(site: Site, loop: cst.While, body: Statements) -> list[str] | None:
    """The variables carried from turn to turn, whole numbers first; all have a value before the loop."""
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
