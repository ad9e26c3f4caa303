"""Branches as calls of torch.cond, whose sides are functions."""

from __future__ import annotations

import libcst as cst

from dynalyze.fix.rewriting.choices import (
    Choice,
    Statements,
    assigned_by,
    block_of,
    bound_before,
    choice_of,
    otherwise_of,
    returns_in,
    targets_of,
)
from dynalyze.fix.rewriting.conditions import Condition, tensor_condition, torch_name
from dynalyze.fix.rewriting.purity import fresh_name, is_new, names_of
from dynalyze.fix.sites import Site, statements_of, walk


def own(site: Site, value: cst.BaseExpression) -> str:
    """What a side hands on, as a tensor of its own: torch.cond forbids aliases."""
    code = site.code(value)
    if is_new(value) or isinstance(value, cst.Tuple):
        return code
    return f"{code}.clone()" if isinstance(value, cst.Name | cst.Attribute | cst.Subscript) else code


class Conds:
    """Branches as calls of torch.cond, those inside of their sides too."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._taken = names_of(site.function)
        self._torch = torch_name(site)

    def chosen(self, condition: Condition, choice: Choice, made: frozenset[str]) -> Statements | None:
        """Two functions and the call of torch.cond. `made` are names that the sides around it have given values."""
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
        """One side as a function. What it hands on without computing it is copied: torch.cond forbids aliases."""
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
        """The statements of a side, with branches on tensors in it as calls of torch.cond."""
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
        """A branch inside of a side."""
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
        """Tensors that a side both reads and assigns, or hands on unchanged: they are passed, others closed over."""
        sides = [*choice.when_true, *choice.when_false]
        assigned = {
            small.value
            for each in sides for node in walk(each, lambda n: isinstance(n, cst.AssignTarget))
            for small in walk(node) if isinstance(small, cst.Name)
        }  # fmt: skip
        read = [
            node.value
            for each in sides for node in walk(each, lambda n: isinstance(n, cst.Name))
            if isinstance(node, cst.Name) and (node.value in assigned or self._site.values.get(node.value) is not None)
        ]  # fmt: skip
        known = self._site.values
        return [
            name for name in dict.fromkeys([*read, *choice.names])
            if (name in known and known[name].kind == "tensor" and (name not in assigned or self._is_bound(name)))
            or (name in made and name in assigned)
        ]  # fmt: skip

    def _is_bound(self, name: str) -> bool:
        return bound_before(self._site, self._site.statement, name)
