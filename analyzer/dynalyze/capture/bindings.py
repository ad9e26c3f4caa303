"""Compiles a script so that it tells whenever it has given a value to certain names: what the user chose by such a
name is then found before its first call.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Collection

HOOK = "__dynalyze_bound__"


def compiled_with_hooks(source: bytes | str, path: str, names: Collection[str]) -> types.CodeType:
    """The code of a script; after each statement that binds one of the names it calls the global `HOOK`.

    Raises:
        SyntaxError, ValueError: as compile() does.
    """
    tree = ast.parse(source, path)
    made: types.CodeType = compile(_Hooks(set(names)).visit(tree), path, "exec", dont_inherit=True)
    return made


class _Hooks(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                setattr(node, field, [new for old in statements for new in self._with_hook(old)])
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            self.generic_visit(handler)
        return node

    def _with_hook(self, statement: ast.stmt) -> list[ast.stmt]:
        self.generic_visit(statement)
        if not self._names & _bound_by(statement):
            return [statement]
        call = ast.Expr(ast.Call(ast.Name(HOOK, ast.Load()), [], []))
        for node in ast.walk(ast.copy_location(call, statement)):
            ast.copy_location(node, statement)
        return [statement, call]


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names that a statement itself binds; what it holds as a block is looked at by itself."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(each.asname or each.name).partition(".")[0] for each in statement.names}
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)):
        return {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return set()
