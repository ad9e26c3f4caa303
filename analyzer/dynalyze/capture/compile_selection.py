"""What the user wants compiled, `--compile EXPR`: modules, methods and functions, by the names the program has.

A script is compiled so that it tells whenever it has given a value to such a name: what stands for it is found before
its first call.
"""

from __future__ import annotations

import ast
import re
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

_SCOPED = re.compile(r"(?P<scope>[A-Za-z_][\w.]*):(?P<expression>[^=].*)", re.DOTALL)
Namespaces = tuple[dict[str, Any], dict[str, Any]]
HOOK = "__dynalyze_bound__"


class CompileSelection:
    """The expressions, looked up whenever the program may have come to have what they name.

    `model.backbone` is looked up in the program's global names, then in those of the functions that run, the
    innermost first; `main:net` in the local names of main(), or in the module of that name.
    """

    def __init__(self, expressions: list[str]) -> None:
        scoped = ((text, _SCOPED.fullmatch(text)) for text in expressions)
        self._expressions = {
            text: (found["scope"], found["expression"]) if found else ("", text) for text, found in scoped
        }
        self._modules: dict[int, weakref.ref[Any]] = {}
        self._functions: dict[int, Any] = {}
        self._found: set[str] = set()
        # Makes what takes the place of a function; set by who compiles.
        self.stand_in: Callable[[Any, str], Any] | None = None

    def __bool__(self) -> bool:
        return bool(self._expressions)

    def __contains__(self, module: Any) -> bool:
        chosen = self._modules.get(id(module))
        return chosen is not None and chosen() is module

    @property
    def names(self) -> list[str]:
        """The names that the expressions begin with."""
        return [re.split(r"\W", expression, maxsplit=1)[0] for _, expression in self._expressions.values()]

    @property
    def missing(self) -> list[str]:
        """The expressions that nothing was found for."""
        return [text for text in self._expressions if text not in self._found]

    def resolve(self) -> None:
        """Look every expression up again: a name may stand for another module by now."""
        if not self._expressions or "torch" not in sys.modules:
            return
        from dynalyze.capture.compile_candidates import frames_of_program

        frames = list(frames_of_program())
        for text, (scope, expression) in self._expressions.items():
            for names in _namespaces(scope, frames):
                if self._take(text, expression, names):
                    break

    def _take(self, text: str, expression: str, names: Namespaces) -> bool:
        try:
            value = eval(expression, *names)
        except Exception:
            return False
        if isinstance(value, sys.modules["torch"].nn.Module):
            self._modules[id(value)] = weakref.ref(value)
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            self._replace(value, text, expression, names)
        else:
            return False
        self._found.add(text)
        return True

    def _replace(self, function: Any, text: str, expression: str, names: Namespaces) -> None:
        """Put a stand-in where the program finds the function: it is called by that name from here on."""
        if self.stand_in is None or id(function) in self._functions:
            return
        made = self.stand_in(function, text)
        owner, dot, name = expression.rpartition(".")
        if dot:
            setattr(eval(owner, *names), name, made)
        else:
            names[0][name] = made
        self._functions[id(made)] = made


def _namespaces(scope: str, frames: list[types.FrameType]) -> Iterator[Namespaces]:
    main = vars(sys.modules["__main__"])
    if not scope:
        yield main, main
    for frame in frames:
        if not scope or scope in (frame.f_code.co_name, getattr(frame.f_code, "co_qualname", "")):
            yield frame.f_globals, frame.f_locals
    if scope and (module := sys.modules.get("__main__" if scope == "main" else scope)) is not None:
        yield vars(module), vars(module)


def compiled_with_hooks(source: bytes | str, path: str, names: Collection[str]) -> types.CodeType:
    """The code of a script; after each statement that binds one of the names it calls the global `HOOK`. Raises what
    compile() does.
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
        if not {*self._names, "*"} & _bound_by(statement):
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
