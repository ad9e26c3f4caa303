"""What syntax alone tells about code, and pieces of code to write."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from dynalyze.fix.sites import Site, statements_of, walk

Statements = Sequence[cst.BaseStatement]
ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber)


def called(call: cst.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


def number(node: cst.BaseExpression) -> int | float | None:
    """The value of a number literal."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = number(node.expression)
        return None if inner is None else -inner
    if isinstance(node, cst.Integer | cst.Float):
        found = node.evaluated_value
        return found if isinstance(found, int | float) else None
    return None


def names_of(node: cst.CSTNode) -> set[str]:
    """All names in some code."""
    return {each.value for each in walk(node, cst.Name)}


def variables_of(target: cst.CSTNode) -> list[str] | None:
    """The variables of a target; None if it is more than variables."""
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, cst.Tuple | cst.List):
        found = [variables_of(each.value) for each in target.elements]
        return None if None in found else [name for names in found for name in names or ()]
    return None


def target_of(statement: cst.CSTNode | None) -> cst.BaseExpression | None:
    """The one target of `x = ...` and `x += ...`."""
    if isinstance(statement, cst.AugAssign):
        return statement.target
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    return targets[0].target if len(targets) == 1 else None


def assigned_values(site: Site, name: str) -> list[cst.BaseExpression]:
    """All values that a function assigns to a variable alone."""
    return [
        node.value for node in walk(site.function, cst.Assign)
        if any(isinstance(each.target, cst.Name) and each.target.value == name for each in node.targets)
    ]  # fmt: skip


def is_label(site: Site, use: cst.Name) -> bool:
    """Whether a name is no variable: an attribute, or the name of an argument."""
    parent = site.parents.get(use)
    is_attribute = isinstance(parent, cst.Attribute) and parent.attr is use
    return is_attribute or (isinstance(parent, cst.Arg) and parent.keyword is use)


def only_of(statements: cst.CSTNode | Statements | None) -> cst.BaseSmallStatement | None:
    """The only small statement of a statement, or of a list of statements."""
    if isinstance(statements, Sequence):
        statements = statements[0] if len(statements) == 1 else None
    line = statements if isinstance(statements, cst.SimpleStatementLine) else None
    return line.body[0] if line is not None and len(line.body) == 1 else None


def block_of(body: cst.BaseSuite) -> Statements | None:
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(list(body.body))]
    if not isinstance(body, cst.IndentedBlock):
        return None
    return [each for each in body.body if isinstance(each, cst.BaseStatement)]


def otherwise_of(branch: cst.If) -> Statements | None:
    """The statements of the other side; an `elif` is one `if` in it."""
    if branch.orelse is None:
        return []
    return [branch.orelse] if isinstance(branch.orelse, cst.If) else block_of(branch.orelse.body)


def skips_turn(site: Site, branch: cst.If) -> bool:
    """Whether it is `if ...: continue` in the body of a loop."""
    block = site.parents.get(branch)
    in_loop = isinstance(block, cst.IndentedBlock) and isinstance(site.parents[block], cst.For | cst.While)
    return in_loop and branch.orelse is None and isinstance(only_of(block_of(branch.body)), cst.Continue)


def bracketed(site: Site, node: cst.BaseExpression) -> str:
    """Its source, as part of a longer expression."""
    return site.code(node) if node.lpar or isinstance(node, ATOMS) else f"({site.code(node)})"


def fresh_name(name: str, taken: set[str]) -> str:
    """A name like this one that is not taken; it is now."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def below(condition: str, statements: Statements) -> cst.If:
    """`if condition:` and the statements below it."""
    (branch,) = statements_of(f"if {condition}:\n    pass\n")
    assert isinstance(branch, cst.If)
    return branch.with_changes(body=cst.IndentedBlock(list(statements)))
