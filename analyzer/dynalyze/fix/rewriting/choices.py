"""What the sides of a branch do: the names that they give values to, or what they return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from dynalyze.fix.rewriting.purity import is_new, names_of
from dynalyze.fix.rewriting.syntax import assigned_values, bracketed
from dynalyze.fix.sites import Site, walk

Statements = Sequence[cst.BaseStatement]


@dataclass(frozen=True)
class Choice:
    """What the two sides of a branch give the same names; `returns` where they are returned. `rest` says that what
    follows the branch in its block is a part of the sides.
    """

    names: tuple[str, ...]
    when_true: Statements
    when_false: Statements
    returns: bool = False
    rest: bool = False


def after(site: Site, branch: cst.If) -> Statements:
    """The statements after a branch; those of an `elif` stand after the `if` that it belongs to."""
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
    if _skips(site, branch, when_true):
        return _without_skipping(site, branch, following)
    if returns_in(when_true) or returns_in(otherwise):
        when_true = when_true if ends_in_return(when_true) else [*when_true, *following]
        when_false = otherwise if ends_in_return(otherwise) else [*otherwise, *following]
        return (
            Choice((), when_true, when_false, True)
            if ends_in_return(when_true) and ends_in_return(when_false)
            else None
        )
    one, other = assigned_by(when_true), assigned_by(otherwise)
    if one is None or other is None:
        return None
    # What a side makes for itself alone need not come out of it.
    both = set(one) & set(other)
    names = [name for name in (*one, *other) if name in both or used_after(site, name, branch)]
    return Choice(tuple(dict.fromkeys(names)), when_true, otherwise) if names else None


def _skips(site: Site, branch: cst.If, statements: Statements) -> bool:
    """`if ...: continue` in the body of a loop."""
    only = statements[0] if len(statements) == 1 else None
    if branch.orelse is not None or not isinstance(only, cst.SimpleStatementLine):
        return False
    block = site.parents.get(branch)
    in_loop = isinstance(block, cst.IndentedBlock) and isinstance(site.parents[block], cst.For | cst.While)
    return in_loop and len(only.body) == 1 and isinstance(only.body[0], cst.Continue)


def _without_skipping(site: Site, branch: cst.If, following: Statements) -> Choice | None:
    """The rest of a turn as the side where the condition does not hold."""
    made = assigned_by(following)
    names = tuple(each for each in made or () if used_after(site, each, branch, *following))
    return Choice(names, [], following, rest=True) if names else None


def otherwise_of(branch: cst.If) -> Statements | None:
    """The statements of the other side; an `elif` is one `if` in it."""
    if branch.orelse is None:
        return []
    return [branch.orelse] if isinstance(branch.orelse, cst.If) else block_of(branch.orelse.body)


def out_of_place(site: Site, statements: Statements) -> Statements:
    """`x = x + 1` for `x += 1`, where no other name can have the same memory; `a, b = 1, 2` as two assignments."""
    found: list[cst.BaseStatement] = []
    for each in statements:
        if not isinstance(each, cst.SimpleStatementLine):
            found.append(each)
        else:
            found += [each.with_changes(body=[small]) for small in _unpacked(_written_out(site, each))]
    return found


def _unpacked(line: cst.SimpleStatementLine) -> Iterator[cst.BaseSmallStatement]:
    for small in line.body:
        plain = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        targets = targets_of(small) if isinstance(small, cst.Assign) else None
        value = small.value if isinstance(small, cst.Assign) else None
        if not targets or len(targets) < 2 or not isinstance(value, cst.Tuple) or len(value.elements) != len(targets):
            yield plain
            continue
        values = [each.value for each in value.elements if isinstance(each, cst.Element)]
        if len(values) < len(targets) or any(names_of(each) & {*targets[:place]} for place, each in enumerate(values)):
            yield plain
            continue
        for name, each in zip(targets, values, strict=True):
            yield cst.Assign([cst.AssignTarget(cst.Name(name))], each)


def _written_out(site: Site, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    new = []
    for small in line.body:
        if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name) and _is_own(site, small.target):
            operator = site.code(small.operator).strip().removesuffix("=")
            text = f"{small.target.value} = {small.target.value} {operator} {bracketed(site, small.value)}"
            (made,) = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine).body
            new.append(made)
        else:
            new.append(small)
    return line.with_changes(body=new)


def _is_own(site: Site, name: cst.Name) -> bool:
    """Whether a variable is a number, or a tensor that was computed here and that nothing else can refer to."""
    found = site.value(name)
    if found is not None and found.kind in ("int", "float", "bool"):
        return True
    values = assigned_values(site, name.value)
    if not values or not all(map(is_new, values)) or name.value in _parameters(site):
        return False
    reads = (each for each in walk(site.function) if isinstance(each, cst.Name) and each.value == name.value)
    return all(_only_computes(site, each) for each in reads)


def _parameters(site: Site) -> set[str]:
    return {each.name.value for each in walk(site.function.params) if isinstance(each, cst.Param)}


def _only_computes(site: Site, name: cst.Name) -> bool:
    """Whether a place where a variable stands gives its memory to nobody else."""
    parent = site.parents[name]
    if isinstance(parent, cst.Attribute):
        parent = site.parents[parent]
        return isinstance(parent, cst.Call) and is_new(parent)
    kinds = cst.BinaryOperation | cst.UnaryOperation | cst.ComparisonTarget | cst.Comparison | cst.AssignTarget
    return isinstance(parent, kinds | cst.AugAssign | cst.Return)


def block_of(body: cst.BaseSuite) -> Statements | None:
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(list(body.body))]
    if not isinstance(body, cst.IndentedBlock):
        return None
    return [each for each in body.body if isinstance(each, cst.BaseStatement)]


def assigned_by(statements: Statements) -> tuple[str, ...] | None:
    """The names that assignments give values to; None where other things are done."""
    names: list[str] = []
    for each in statements:
        if isinstance(each, cst.If):
            body, otherwise = block_of(each.body), otherwise_of(each)
            inner = [None if some is None else assigned_by(some) for some in (body, otherwise)]
            if inner[0] is None or inner[1] is None:
                return None
            names += [*inner[0], *inner[1]]
            continue
        if isinstance(each, cst.For) and each.orelse is None:
            turns = block_of(each.body)
            inside = None if turns is None else assigned_by(turns)
            if inside is None:
                return None
            names += [*(node.value for node in walk(each.target) if isinstance(node, cst.Name)), *inside]
            continue
        if not isinstance(each, cst.SimpleStatementLine):
            return None
        for small in each.body:
            found = targets_of(small)
            if found is None:
                return None
            names += found
    return tuple(dict.fromkeys(names))


def targets_of(small: cst.BaseSmallStatement) -> list[str] | None:
    if isinstance(small, cst.Pass) or (
        isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)
    ):
        return []
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    target = small.targets[0].target
    parts = [part.value for part in target.elements] if isinstance(target, cst.Tuple) else [target]
    if not all(isinstance(part, cst.Name) for part in parts):
        return None
    return [part.value for part in parts if isinstance(part, cst.Name)]


def returns_in(statements: Statements) -> bool:
    return any(isinstance(node, cst.Return) for each in statements for node in walk(each))


def ends_in_return(statements: Statements) -> bool:
    """Whether every way through the statements ends in the return of a value, and assigns before that at most."""
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
    """Whether a name is read anywhere but in the branch: after it, or in the next turn of a loop around it."""
    inside = {id(node) for each in branch for node in walk(each)}
    return any(
        isinstance(node, cst.Name)
        and node.value == name
        and id(node) not in inside
        and not isinstance(site.parents[node], cst.AssignTarget | cst.Param)
        for node in walk(site.function)
    )


def bound_before(site: Site, statement: cst.BaseStatement, name: str) -> bool:
    """Whether a variable has a value before a statement, whichever way leads there: it is an argument, or one of the
    statements above assigns it, in this block or one around it. What a loop assigns further down does not count.
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
    """Whether a statement gives a variable a value, whatever way it takes."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(name in (targets_of(small) or ()) for small in statement.body)
    if isinstance(statement, cst.If) and statement.orelse is not None:
        sides = [statement.body, statement.orelse if isinstance(statement.orelse, cst.If) else statement.orelse.body]
        return all(_assigns(each, name) for each in sides)
    if isinstance(statement, cst.With):
        return _assigns(statement.body, name)
    return isinstance(statement, cst.IndentedBlock) and any(_assigns(each, name) for each in statement.body)
