"""Gives functions that exist already the code of another source: the same objects and state, run with either code.

Both sources are compiled, and their code objects paired by where they stand: a method of a class, the second lambda of
a function. Whatever function of the process has code of the old one gets that of the new one, found by a search of all
objects: methods, closures, functions that were pickled by value. What the new source has at its top and the old one
lacks (an import, a helper) is executed in the globals of these functions.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import linecache
import sys
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynalyze.capture.source_texts import HELD

Key = tuple[tuple[str, int], ...]
"""Where a code object stands: names from the module down, each with how many of that name stood before it."""

_ADDED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


class CannotSwap(Exception):
    """The new source changes more than the code of functions; the text says what."""


@dataclass(frozen=True)
class SourceChange:
    """A file, as its code objects name it, with its source as it is and as it is to be."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class _Swapped:
    function: types.FunctionType
    old: types.CodeType
    new: types.CodeType


class Swap:
    """Changes of some files, applied to all functions of this process inside of `applied`.

    Raises:
        CannotSwap: a source is no Python, or changes more than functions; or none of its functions exist.
    """

    def __init__(self, changes: Sequence[SourceChange]) -> None:
        self._changes = changes
        self._functions = [each for change in changes for each in _functions(change)]
        added = [statement for change in changes for statement in _added(change)]
        self._added = compile(ast.Module(added, []), "<added>", "exec") if added else None
        self._put: list[tuple[dict[str, Any], str]] = []
        freed = {name for change in changes for name in _freed(change)}
        self._held = [place for each in self._functions if each.function.__name__ in freed
                      for place in _disabled_places(each.function)]  # fmt: skip

    @property
    def codes(self) -> set[types.CodeType]:
        """The code of the functions as they are without the change."""
        return {each.old for each in self._functions}

    @property
    def globals(self) -> list[dict[str, Any]]:
        """The globals of the changed functions, each once."""
        spaces = {id(each.function.__globals__): each.function.__globals__ for each in self._functions}
        return list(spaces.values())

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Run what follows with the new code."""
        try:
            self.apply()
            yield
        finally:
            for each in self._functions:
                each.function.__code__ = each.old
            for space, name in self._put:
                space.pop(name, None)
            self._put = []
            for place, name, disabled in self._held:
                setattr(place, name, disabled)
            for change in self._changes:
                _show(change.path, change.old)

    def apply(self) -> None:
        """Let the functions have the new code from here on."""
        for space in self.globals if self._added is not None else ():
            before = set(space)
            exec(self._added, space)  # type: ignore[arg-type]
            self._put += [(space, name) for name in set(space) - before]
        for place, name, disabled in self._held:
            setattr(place, name, disabled._torchdynamo_orig_callable)
        for each in self._functions:
            try:
                each.function.__code__ = each.new
            except ValueError as error:
                raise CannotSwap(f"{each.old.co_name} closes over other variables then: {error}") from error
        for change in self._changes:
            _show(change.path, change.new)


def _show(path: str, source: str) -> None:
    """Let tracebacks, recordings and whoever asks for source lines see this text."""
    HELD.hold(path, source.encode())
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)


def _functions(change: SourceChange) -> list[_Swapped]:
    """The functions of this process that are made from the old source, each with its new code."""
    old, new = _codes(change.old, change.path), _codes(change.new, change.path)
    classes = {each.name for each in ast.parse(change.new).body if isinstance(each, ast.ClassDef)}
    if gone := [key for key in old if key not in new and key[-1][0] not in classes]:
        raise CannotSwap(f"{gone[0][-1][0]} is not there any more")
    old = {key: code for key, code in old.items() if key in new}  # A class that went to the top is made there anew.
    for key, code in old.items():
        if _signature(code) != _signature(new[key]):
            raise CannotSwap(f"{code.co_name} takes other arguments")
    by_code = {code: new[key] for key, code in old.items()}
    # Of a program with hooks in it, or one that a tool rewrote, the bytecode is another one.
    by_place = {(code.co_name, code.co_firstlineno): new[key] for key, code in old.items()}
    found = []
    gc.unfreeze()  # A process that was forked has frozen all that its parent had imported.
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename == change.path:
            code = each.__code__
            put = by_code.get(code) or by_place.get((code.co_name, code.co_firstlineno))
            if put is not None:
                found.append(_Swapped(each, code, put))
    if not found:
        raise CannotSwap(f"no function of {change.path} is there any more")
    return found


def _codes(source: str, path: str) -> dict[Key, types.CodeType]:
    """Every function's code in a source, by where it stands."""
    try:
        whole = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotSwap(f"{path} is no Python: {error}") from error
    found: dict[Key, types.CodeType] = {}

    def walk(code: types.CodeType, above: Key) -> None:
        count: Counter[str] = Counter()
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                key = (*above, (inner.co_name, count[inner.co_name]))
                count[inner.co_name] += 1
                found[key] = inner
                walk(inner, key)

    walk(whole, ())
    return found


def _signature(code: types.CodeType) -> tuple[Any, ...]:
    taken = code.co_argcount + code.co_kwonlyargcount
    return code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_varnames[:taken]


def _added(change: SourceChange) -> list[ast.stmt]:
    """The statements at the top of the new source that the old one lacks; refuses other differences there."""
    old, new = ast.parse(change.old).body, ast.parse(change.new).body
    known = {ast.dump(each) for each in old}
    defined = {each.name for each in old if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    added: list[ast.stmt] = []
    for each in new:
        if ast.dump(each) in known or getattr(each, "name", None) in defined:
            continue
        if not isinstance(each, _ADDED):
            if isinstance(each, ast.If | ast.Expr | ast.For | ast.With | ast.Try):
                continue  # What the program does at its top has been done.
            raise CannotSwap(f"line {each.lineno} is new at the top of the file")
        if not (isinstance(each, ast.Assign | ast.AnnAssign) and _assigned(each) & _names(old)):
            added.append(each)
    return added


def _freed(change: SourceChange) -> set[str]:
    """The functions that torch.compiler.disable decorates in the old source alone."""
    before, now = (
        {each.name for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)
         and any("disable" in ast.unparse(decorator) for decorator in each.decorator_list)}
        for source in (change.old, change.new)
    )  # fmt: skip
    return before - now


def _disabled_places(function: types.FunctionType) -> list[tuple[Any, str, Any]]:
    """Modules and classes that hold a function as torch.compiler.disable made it: each with the name there and that."""
    classes = [
        each for each in gc.get_objects() if issubclass(type(each), type) and each.__module__ == function.__module__
    ]
    return [
        (place, name, value) for place in [*list(sys.modules.values()), _Space(function.__globals__), *classes]
        for name, value in list(vars(place).items())
        if type(value) is types.FunctionType and vars(value).get("_torchdynamo_orig_callable") is function
    ]  # fmt: skip


class _Space:
    """The globals of a module that may be no longer among the imported ones."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.__dict__ = space


def _assigned(statement: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _names(statements: list[ast.stmt]) -> set[str]:
    return {name for each in statements if isinstance(each, ast.Assign | ast.AnnAssign) for name in _assigned(each)}
