"""What a changed source adds at the top of its file and to its classes, and how classes of this process get it."""

from __future__ import annotations

import ast
import gc
import re
import types
from abc import ABCMeta
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from dynalyze.capture.fixing.records import SourceChange

_MORE = "more is changed than the bodies of functions and what is added at the top of the file or to a class"
_ADDED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)

_KEPT = 8
"""Trees that are kept: of what a few files were and are to be."""


class CannotSwap(Exception):
    """The new source changes more than the code of functions; the text says what."""


class Addition(NamedTuple):
    """A statement that a source gets, and the names that it defines. `within` are the classes around it, from the
    module down: none at the top.
    """

    within: tuple[str, ...]
    statement: ast.stmt
    names: set[str]


def additions_of(change: SourceChange) -> list[Addition]:
    """What the new source adds at its top and to its classes: imports, functions and values of new names. Raises
    CannotSwap if it changes anything else outside the bodies of functions: defaults, decorators, bases, attributes of
    classes, and the order in which a file does things.
    """
    old, new = (_without_bodies(text, change.path) for text in (change.old, change.new))
    return list(_added_to(old, new, parsed(change.new).body, ()))


def unused_functions(changes: Sequence[SourceChange], added: Iterable[Addition]) -> set[str]:
    """The new functions at the top of a file that nothing in the changed files names, so that nothing calls them. A
    method may be called by whoever asks an object for it, and a function that has a decorator by whoever got it.
    """
    words = Counter(word for change in changes for word in re.findall(r"\w+", change.new))
    functions = [each.statement for each in added if isinstance(each.statement, ast.FunctionDef) and not each.within]
    return {each.name for each in functions if not each.decorator_list and words[each.name] == 1}


def _added_to(
    old: Sequence[ast.stmt], new: Sequence[ast.stmt], source: Sequence[ast.stmt], within: tuple[str, ...]
) -> Iterator[Addition]:
    """`new` are the statements of `source` with empty bodies."""
    names, waiting = _names(old), list(old)
    for emptied, each in zip(new, source, strict=True):
        if waiting and _is_same(waiting[0], emptied):
            before = waiting.pop(0)
            if isinstance(each, ast.ClassDef):
                bodies = [one.body for one in (before, emptied, each)]  # type: ignore[attr-defined]
                inside = list(_added_to(bodies[0], bodies[1], bodies[2], (*within, each.name)))
                if inside and each.decorator_list:  # As `dataclass`, which makes methods of what is there.
                    raise CannotSwap(f"{each.name} has a decorator, which may look at what is added to it")
                yield from inside
        else:
            own = _names([emptied])
            if not isinstance(each, _ADDED) or own & (names | {"__slots__"}) or _stores_into(each):
                raise CannotSwap(f"{_MORE} (line {each.lineno})")
            yield Addition(within, each, own)
    if waiting:
        raise CannotSwap(f"{_MORE} (line {waiting[0].lineno} of the old source)")


def _is_same(old: ast.stmt, new: ast.stmt) -> bool:
    """Whether a statement is there as before; of a class, whether its head is."""
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
        old, new = (ast.ClassDef(**{**dict(ast.iter_fields(each)), "body": []}) for each in (old, new))
    return ast.dump(old) == ast.dump(new)


def _stores_into(statement: ast.stmt) -> bool:
    """Whether it changes an object, as `TABLE[1] = 2` does."""
    return any(
        isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
        for node in (ast.walk(statement) if isinstance(statement, ast.Assign | ast.AnnAssign) else ())
    )


@lru_cache(_KEPT)
def parsed(source: str) -> ast.Module:
    """A source as a tree that nobody changes. Cached: changes of a file share the old source."""
    return ast.parse(source)


@lru_cache(_KEPT)
def _without_bodies(source: str, path: str) -> list[ast.stmt]:
    """The statements of a source with empty function bodies. Raises CannotSwap if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotSwap(f"{path} is no Python: {error}") from error
    return [_Emptied().visit(each) for each in tree.body]


class _Emptied(ast.NodeTransformer):
    """Empties the bodies of functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.body = [ast.Pass()]
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = ast.Constant(None)
        return self.generic_visit(node)


@dataclass
class Members:
    """What one class gets: `code` is that of a class with nothing else in it, run in the globals `space`."""

    owner: type
    code: types.CodeType
    names: set[str]
    space: dict[str, Any]
    _is_put: bool = field(default=False, init=False)

    def put(self) -> None:
        """Raises CannotSwap if the class has something of that name, or if something looks at classes as they are made:
        a member that comes later is none of theirs then.
        """
        looked_at = "__orig_bases__" in vars(self.owner)  # As of a NamedTuple.
        looked_at |= any("__init_subclass__" in vars(each) for each in self.owner.__mro__[1:-1])
        if looked_at or type(self.owner) not in (type, ABCMeta):
            raise CannotSwap(f"what {self.owner.__name__} holds is looked at when it is made")
        if taken := [name for name in sorted(self.names) if hasattr(self.owner, name)]:
            raise CannotSwap(f"{self.owner.__name__} has another {taken[0]} already")
        made: dict[str, Any] = {}
        self._is_put = True
        exec(self.code, self.space, made)
        for name, value in vars(made[self.owner.__name__]).items():
            if name in self.names:
                if isinstance(function := _function_of(value), types.FunctionType):
                    function.__qualname__ = f"{self.owner.__qualname__}.{name}"
                    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                        if variable == "__class__":  # For `super()`.
                            cell.cell_contents = self.owner
                setattr(self.owner, name, value)

    def take_away(self) -> None:
        """Only what was put: a class that was refused keeps what it has."""
        for name in self.names & vars(self.owner).keys() if self._is_put else ():
            delattr(self.owner, name)
        self._is_put = False


def compiled_addition(change: SourceChange, added: Sequence[Addition], used: set[str]) -> types.CodeType | None:
    """What a file gets at its top, with its own imports that this or the new code uses: a function that was pickled by
    value only has the imports that its old code uses.
    """
    used = used | {node.id for each in added for node in ast.walk(each.statement) if isinstance(node, ast.Name)}
    imports = [each for each in _imports(change) if {a.asname or a.name.partition(".")[0] for a in each.names} & used]
    statements: list[ast.stmt] = [*imports, *(each.statement for each in added if not each.within)]
    return _compiled(change, statements) if statements else None


def _compiled(change: SourceChange, statements: Sequence[ast.stmt]) -> types.CodeType:
    """Statements as code of the file, under the futures that it asks for, not under those of this one."""
    futures = [each for each in _imports(change) if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    return compile(ast.Module([*futures, *statements], []), change.path, "exec", dont_inherit=True)


def members_of(
    change: SourceChange, added: Sequence[Addition], functions: Sequence[types.FunctionType]
) -> Iterator[Members]:
    """What each class gets. Raises CannotSwap if a class is not there."""
    for within in dict.fromkeys(each.within for each in added if each.within):
        own = [each for each in added if each.within == within]
        alone = ast.parse(f"class {within[-1]}: pass").body
        alone[0].body = [each.statement for each in own]  # type: ignore[attr-defined]
        code, owners = _compiled(change, alone), list(_classes(".".join(within), functions))
        if not owners:
            raise CannotSwap(f"no class {within[-1]} of {change.path} is left")
        for owner, space in owners:
            yield Members(owner, code, {name for each in own for name in each.names}, space)


def _function_of(member: Any) -> Any:
    """The function of a class or static method, or of a property; of anything else, itself."""
    if isinstance(member, staticmethod | classmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _classes(name: str, functions: Sequence[types.FunctionType]) -> Iterator[tuple[type, dict[str, Any]]]:
    """The classes of this qualified name that hold one of these functions, with the globals of that."""
    by_identity = {id(each): each for each in functions}
    for each in gc.get_objects():
        if issubclass(type(each), type) and each.__qualname__ == name:  # Of a proxy the object may be gone.
            own = map(_function_of, vars(each).values())
            if held := next((by_identity[id(value)] for value in own if id(value) in by_identity), None):
                yield each, held.__globals__


def _imports(change: SourceChange) -> list[ast.Import | ast.ImportFrom]:
    """The imports at the top of the old source."""
    return [each for each in parsed(change.old).body if isinstance(each, ast.Import | ast.ImportFrom)]


def _names(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that these statements assign or define."""
    nodes = [node for each in statements for node in ast.walk(each)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return stored | {each.name for each in statements if isinstance(each, defined)}
