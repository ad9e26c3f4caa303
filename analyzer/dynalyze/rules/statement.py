"""The statement of a graph break: its syntax tree, what follows it, and the expression that torch points at."""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Statement:
    """The statement of a break, those that follow it in its block, and the expression that torch points at.

    `statement` is None where the source is not known: then no recipe that asks for a shape fits.
    """

    statement: ast.stmt | None = None
    following: list[ast.stmt] = field(default_factory=list)
    expression: ast.expr | None = None

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Calls in the expression, or, where that is not known, in the statement's own lines."""
        within = self.expression or (head(self.statement) if self.statement is not None else None)
        return [] if within is None else [each for each in ast.walk(within) if isinstance(each, ast.Call)]

    def calls_any(self, *names: str) -> bool:
        """Whether a function or method of one of these names is called."""
        return any(called(each) in names for each in self.calls)

    @property
    def test(self) -> ast.expr | None:
        """The condition of an `if`, `while` or `assert`."""
        return self.statement.test if isinstance(self.statement, ast.If | ast.While | ast.Assert) else None

    @property
    def target(self) -> ast.expr | None:
        """What the statement assigns to, where that is one thing."""
        if isinstance(self.statement, ast.Assign) and len(self.statement.targets) == 1:
            return self.statement.targets[0]
        return self.statement.target if isinstance(self.statement, ast.AugAssign) else None

    def holders(self, node: ast.AST) -> list[ast.AST]:
        """What holds a part of the statement, the nearest first."""
        parents = {id(child): each for each in ast.walk(self.statement or node) for child in ast.iter_child_nodes(each)}
        found: list[ast.AST] = []
        while (parent := parents.get(id(found[-1] if found else node))) is not None:
            found.append(parent)
        return found

    @cached_property
    def located(self) -> ast.expr | None:
        """The expression of the break as a part of the statement: the first that is written like it."""
        if self.expression is None or self.statement is None:
            return None
        wanted = ast.unparse(self.expression)
        parts = (each for each in ast.walk(self.statement) if isinstance(each, ast.expr))
        return next((each for each in parts if ast.unparse(each) == wanted), None)

    @property
    def around(self) -> list[ast.AST]:
        """The located expression and what holds it, the nearest first; empty where it is not known."""
        return [self.located, *self.holders(self.located)] if self.located is not None else []


def read_statement(block: str, expression: str) -> Statement:
    """The code of a break from its report; what cannot be parsed is not known."""
    statements: list[ast.stmt] = []
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        statements = ast.parse(block).body
    node: ast.expr | None = None
    for text in (expression, f"{expression})"):  # A call in a condition is told without its last bracket.
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            node = ast.parse(text.strip(), mode="eval").body
            break
    return Statement(statements[0] if statements else None, statements[1:], node)


def head(statement: ast.stmt) -> ast.AST:
    """A statement without the blocks inside of it: of an `if` the condition, of a `for` what it goes through."""
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        return statement.test
    if isinstance(statement, ast.For):
        return statement.iter
    return ast.Tuple([item.context_expr for item in statement.items]) if isinstance(statement, ast.With) else statement


def called(call: ast.Call) -> str:
    """The name of what is called: `sum` for `x.sum()`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
