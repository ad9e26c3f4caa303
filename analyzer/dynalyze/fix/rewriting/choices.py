"""What the sides of a branch do: the names that they assign, or what they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.rewriting.purity import is_new
from dynalyze.fix.rewriting.syntax import (
    Statements,
    assigned_values,
    block_of,
    bracketed,
    names_of,
    otherwise_of,
    skips_turn,
    target_of,
    variables_of,
)
from dynalyze.fix.sites import Site, walk


@dataclass(frozen=True)
class Choice:
    """What the two sides of a branch assign to the same names, or return (`returns`). With `rest` the statements after
    the branch in its block are part of the sides.
    """

    names: tuple[str, ...]
    when_true: Statements
    when_false: Statements
    returns: bool = False
    rest: bool = False


def after(site: Site, branch: cst.If) -> Statements:
    """The statements after a branch; for an `elif`, those after its `if`."""
    outer: cst.CSTNode = branch
    while isinstance(site.parents[outer], cst.If | cst.Else):
        outer = site.parents[outer]
    block = site.parents[outer]
    assert isinstance(block, cst.IndentedBlock)
    statements = [each for each in block.body if isinstance(each, cst.BaseStatement)]
    return statements[[id(each) for each in statements].index(id(outer)) + 1 :]


def choice_of(site: Site, branch: cst.If, following: Statements) -> Choice | None:
    when_true, otherwise = block_of(branch.body), otherwise_of(branch)
    if when_true is None or otherwise is None:
        return None
    when_true, otherwise = out_of_place(site, when_true), out_of_place(site, otherwise)
    following = out_of_place(site, following)
    if skips_turn(site, branch):
        return _without_skipping(site, branch, following)
    if returns_in(when_true) or returns_in(otherwise):
        when_true = when_true if ends_in_return(when_true) else [*when_true, *following]
        when_false = otherwise if ends_in_return(otherwise) else [*otherwise, *following]
        both_return = ends_in_return(when_true) and ends_in_return(when_false)
        return Choice((), when_true, when_false, returns=True) if both_return else None
    one, other = assigned_by(when_true), assigned_by(otherwise)
    if one is None or other is None:
        return None
    # What a side makes for itself alone need not come out of it.
    both = set(one) & set(other)
    names = [name for name in (*one, *other) if name in both or used_after(site, name, branch)]
    return Choice(tuple(dict.fromkeys(names)), when_true, otherwise) if names else None


def _without_skipping(site: Site, branch: cst.If, following: Statements) -> Choice | None:
    """The rest of a turn as the side taken if the condition is false."""
    made = assigned_by(following)
    names = tuple(each for each in made or () if used_after(site, each, branch, *following))
    return Choice(names, [], following, rest=True) if names else None


def out_of_place(site: Site, statements: Statements) -> Statements:
    """`x = x + 1` for `x += 1`, if no other name can share the memory; `a, b = 1, 2` as two assignments."""
    found: list[cst.BaseStatement] = []
    for each in statements:
        if isinstance(each, cst.SimpleStatementLine):
            new = [one for small in each.body for one in _unpacked(_written_out(site, small))]
            found += [each.with_changes(body=[small]) for small in new]
        else:
            found.append(each)
    return found


def _unpacked(small: cst.BaseSmallStatement) -> list[cst.BaseSmallStatement]:
    plain = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
    if not isinstance(small, cst.Assign) or not isinstance(small.value, cst.Tuple):
        return plain
    names = targets_of(small) or []
    values = [each.value for each in small.value.elements if isinstance(each, cst.Element)]
    if len(names) < 2 or not len(names) == len(values) == len(small.value.elements):
        return plain
    if any(names_of(each) & {*names[:place]} for place, each in enumerate(values)):
        return plain
    return [cst.Assign([cst.AssignTarget(cst.Name(name))], each) for name, each in zip(names, values, strict=True)]


def _written_out(site: Site, small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    if not isinstance(small, cst.AugAssign) or not isinstance(small.target, cst.Name):
        return small
    if not _is_own(site, small.target):
        return small
    name, operator = small.target.value, site.code(small.operator).strip().removesuffix("=")
    made = cst.parse_statement(f"{name} = {name} {operator} {bracketed(site, small.value)}")
    return cst.ensure_type(cst.ensure_type(made, cst.SimpleStatementLine).body[0], cst.Assign)


def _is_own(site: Site, name: cst.Name) -> bool:
    """Whether a variable is a number, or a tensor computed here that nothing else can refer to."""
    found = site.value(name)
    if found is not None and found.kind in ("int", "float", "bool"):
        return True
    values = assigned_values(site, name.value)
    if not values or not all(map(is_new, values)) or name.value in _parameters(site):
        return False
    return all(_only_computes(site, each) for each in walk(site.function, cst.Name) if each.value == name.value)


def _parameters(site: Site) -> set[str]:
    return {each.name.value for each in walk(site.function.params, cst.Param)}


def _only_computes(site: Site, name: cst.Name) -> bool:
    """Whether a use of a variable shares its memory with nobody."""
    parent = site.parents[name]
    if isinstance(parent, cst.Attribute):
        parent = site.parents[parent]
        return isinstance(parent, cst.Call) and is_new(parent)
    kinds = cst.BinaryOperation | cst.UnaryOperation | cst.ComparisonTarget | cst.Comparison | cst.AssignTarget
    return isinstance(parent, kinds | cst.AugAssign | cst.Return)


def assigned_by(statements: Statements) -> tuple[str, ...] | None:
    """The names that assignments bind; None if anything else is done."""
    names: list[str] = []
    for each in statements:
        found: list[Sequence[str] | None] = [None]
        if isinstance(each, cst.SimpleStatementLine):
            found = [targets_of(small) for small in each.body]
        elif isinstance(each, cst.If):
            found = [None if side is None else assigned_by(side) for side in (block_of(each.body), otherwise_of(each))]
        elif isinstance(each, cst.For) and each.orelse is None:
            turn = block_of(each.body)
            found = [[node.value for node in walk(each.target, cst.Name)], None if turn is None else assigned_by(turn)]
        for given in found:
            if given is None:
                return None
            names += given
    return tuple(dict.fromkeys(names))


def targets_of(small: cst.BaseSmallStatement) -> list[str] | None:
    """The names that an assignment binds, none for a statement without effect; None for any other."""
    is_text = isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)
    if isinstance(small, cst.Pass) or is_text:
        return []
    target = target_of(small) if isinstance(small, cst.Assign) else None
    return None if target is None else variables_of(target)


def returns_in(statements: Statements) -> bool:
    return any(walk(each, cst.Return) for each in statements)


def ends_in_return(statements: Statements) -> bool:
    """Whether every path through the statements ends by returning a value, and only assigns before."""
    for number, each in enumerate(statements):
        if isinstance(each, cst.If) and returns_in([each]):
            body, otherwise = block_of(each.body), otherwise_of(each)
            rest = statements[number + 1 :]
            if body is None or otherwise is None:
                return False
            return ends_in_return([*body, *([] if returns_in(body) else rest)]) and ends_in_return(
                [*otherwise, *([] if returns_in(otherwise) else rest)]
            )
        if isinstance(each, cst.SimpleStatementLine) and isinstance(each.body[-1], cst.Return):
            return len(each.body) == 1 and each.body[-1].value is not None
        if assigned_by([each]) is None:
            return False
    return False


def used_after(site: Site, name: str, *branch: cst.BaseStatement) -> bool:
    """Whether a name is read outside the branch: after it, or in the next turn of a loop around it."""
    inside = {id(node) for each in branch for node in walk(each)}
    return any(
        node.value == name and id(node) not in inside
        and not isinstance(site.parents[node], cst.AssignTarget | cst.Param)
        for node in walk(site.function, cst.Name)
    )  # fmt: skip


def bound_before(site: Site, statement: cst.BaseStatement, name: str) -> bool:
    """Whether a variable has a value before a statement on every path: it is an argument, or a statement above in this
    block or an outer one assigns it. Assignments further down in a loop do not count.
    """
    if name in _parameters(site):
        return True
    inner: cst.CSTNode = statement
    while (outer := site.parents.get(inner)) is not None:
        if isinstance(outer, cst.For) and name in names_of(outer.target):
            return True
        if isinstance(outer, cst.IndentedBlock):
            before = list(outer.body)[: next(n for n, each in enumerate(outer.body) if each is inner)]
            if any(_assigns(each, name) for each in before):
                return True
        inner = outer
    return False


def _assigns(statement: cst.CSTNode, name: str) -> bool:
    """Whether a statement binds a variable on every path."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(name in (targets_of(small) or ()) for small in statement.body)
    if isinstance(statement, cst.If) and statement.orelse is not None:
        sides = [statement.body, statement.orelse if isinstance(statement.orelse, cst.If) else statement.orelse.body]
        return all(_assigns(each, name) for each in sides)
    if isinstance(statement, cst.With):
        return _assigns(statement.body, name)
    return isinstance(statement, cst.IndentedBlock) and any(_assigns(each, name) for each in statement.body)
