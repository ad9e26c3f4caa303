"""Gives existing functions the code of another source: the same objects and state, run with either code.

Both sources are compiled, and their code objects paired by position: a method of a class, the second lambda of a
function. Every function of the process with code of the old source gets that of the new one, found among all objects:
methods, closures, functions that were pickled by value. What the new source adds at its top (an import, a helper) is
executed in the globals of these functions, and what it adds to a class (a method, a constant) is put into that class.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import gc
import inspect
import linecache
import sys
import types
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dynalyze.capture.fixing.additions import (
    CannotSwap,
    additions_of,
    compiled_addition,
    members_of,
    parsed,
    unused_functions,
)
from dynalyze.capture.fixing.records import SourceChange
from dynalyze.capture.fixing.watching import code_of
from dynalyze.capture.source_lines import bare_lines, lines_of
from dynalyze.capture.source_texts import HELD, as_bytes

Key = tuple[tuple[str, int], ...]
"""Where a code object stands: names from the module down, each with how many of that name stood before it."""

_NOTHING = object()
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Functions up to Python 3.11, made anew each time by the code around them: no function has their code for long."""
_MADE_AT_ONCE = (*_COMPREHENSIONS, "<genexpr>")
"""What runs when the module or class around it is made."""


@dataclass(frozen=True)
class _Swapped:
    function: types.FunctionType
    old: types.CodeType
    new: types.CodeType


class Swap:
    """Changes of some files, for all functions of this process inside `applied`. Raises CannotSwap if a source is no
    Python or changes more than functions, or none of its functions or classes exist.
    """

    def __init__(self, changes: Sequence[SourceChange]) -> None:
        self.changes = changes
        additions = {change.path: additions_of(change) for change in changes}
        own = {change.path: _functions(change) for change in changes}
        self._functions = [each for functions in own.values() for each in functions]
        self._added = [
            (code, _spaces(own[change.path])) for change in changes
            if (code := compiled_addition(change, additions[change.path], self._used_anew)) is not None
        ]  # fmt: skip
        self._members = [
            each for change in changes
            for each in members_of(change, additions[change.path], [one.function for one in own[change.path]])
        ]  # fmt: skip
        everything = [each for path in additions for each in additions[path]]
        self._unused = {*_MADE_AT_ONCE, *unused_functions(changes, everything)}
        self._put: list[tuple[dict[str, Any], str, Any]] = []
        self._places = [place for change in changes for place in _changed_places(change)]
        self._new_lines = {change.path: _new_lines(change) for change in changes}

    @property
    def functions(self) -> list[types.FunctionType]:
        """The functions that get other code."""
        return [each.function for each in self._functions if each.old != each.new]

    @property
    def put_names(self) -> set[str]:
        """The names that modules get, or whose values change, while the change is applied."""
        return {name for code, _ in self._added for name in code.co_names}

    @property
    def put_members(self) -> set[tuple[type, str]]:
        """What classes get while the change is applied."""
        return {(each.owner, name) for each in self._members for name in each.names}

    @property
    def new_names(self) -> set[str]:
        """The names that only the new code uses."""
        return self._used_anew | {name for code in self._code_of_additions for name in _used(code)}

    @property
    def _used_anew(self) -> set[str]:
        """Those of the functions that were there before."""
        used = [(set(_used(each.old)), set(_used(each.new))) for each in self._functions]
        return {name for old, new in used for name in new - old}

    @property
    def _code_of_additions(self) -> list[types.CodeType]:
        return [*(code for code, _ in self._added), *(each.code for each in self._members)]

    def unreached(self, lines: set[tuple[str, int]]) -> str:
        """The first changed place, as FILE:LINE, without any of these lines; "" if there is none."""
        for path, number, places in self._places:
            if not any((path, line) in lines for first, last in places for line in range(first, last + 1)):
                return f"{Path(path).name}:{number}"
        return ""

    def unrun(self, ran: Collection[tuple[types.CodeType, int]]) -> list[tuple[str, int]]:
        """The new lines of functions, by file and number, with an expression that never ran."""
        expressions: dict[tuple[Any, ...], bool] = {}
        for code in self.new_codes:
            lines = self._new_lines.get(code.co_filename, set())
            for number, place in enumerate(code.co_positions() if hasattr(code, "co_positions") else ()):
                begins, ends = (place[0], place[2]), (place[1], place[3])
                if place[0] in lines and place[2] is not None and begins != ends:  # Not the beginning of a frame.
                    key = code.co_filename, *place
                    expressions[key] = expressions.get(key, False) or (code, 2 * number) in ran
        return sorted({(key[0], key[1]) for key, did_run in expressions.items() if not did_run})

    def maker_of(self, name: str, ran: Collection[tuple[str, int]]) -> str:
        """The function that speaks of this name with the change alone, and of which no line is among these, such as a
        constructor; "" if there is none.
        """
        for each in self._functions:
            lines = {(each.old.co_filename, line) for _, _, line in each.old.co_lines() if line is not None}
            if name in set(_texts(each.new)) - set(_texts(each.old)) and not lines & set(ran):
                return each.old.co_name
        return ""

    @property
    def codes(self) -> set[types.CodeType]:
        """The code of the functions without the change."""
        return {each.old for each in self._functions}

    @property
    def new_codes(self) -> set[types.CodeType]:
        """The code of the functions with it, and of those that come with it, but for functions that nothing calls."""
        made = (each for code in self._code_of_additions for each in _defined_in(code, self._unused))
        return {each.new for each in self._functions}.union(made)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        try:
            self.apply()
            yield
        finally:
            for each in self._functions:
                each.function.__code__ = each.old
            for member in self._members:
                member.take_away()
            for space, name, before in reversed(self._put):
                if before is _NOTHING:
                    space.pop(name, None)
                else:
                    space[name] = before
            self._put = []
            for change in self.changes:
                _show(change.path, change.old)

    def apply(self) -> None:
        """Give the functions the new code."""
        for code, space in ((code, space) for code, spaces in self._added for space in spaces):
            before = dict(space)
            exec(code, space)
            put = [name for name, value in space.items() if before.get(name, _NOTHING) is not value]
            self._put += [(space, name, before.get(name, _NOTHING)) for name in put]
            if taken := [name for name in put if name in before]:
                raise CannotSwap(f"the name {taken[0]} is something else already")
        for member in self._members:
            member.put()
        for each in self._functions:
            try:
                each.function.__code__ = each.new
            except ValueError as error:
                raise CannotSwap(f"{each.old.co_name} closes over other variables then: {error}") from error
        for change in self.changes:
            _show(change.path, change.new)


def _show(path: str, source: str) -> None:
    """Show this text to tracebacks, recordings and whoever asks for source lines."""
    HELD.hold(path, as_bytes(source))
    linecache.cache[path] = (len(source), None, lines_of(source), path)


def _functions(change: SourceChange) -> list[_Swapped]:
    """The functions of this process made from the old source, each with its new code."""
    old, new = _codes(change.old, change.path), _codes(change.new, change.path)
    pairs = {
        key: (code, _pair(key, code, old, new))
        for key, code in old.items() if key[-1][0] not in _COMPREHENSIONS
    }  # fmt: skip
    by_code: dict[Any, Any] = {}
    # Of a program with hooks in it, or one that a tool rewrote, the bytecode is another one.
    by_place: dict[Any, Any] = {}
    for code, put in pairs.values():
        for known, key in ((by_code, code), (by_place, (code.co_name, code.co_firstlineno))):
            known[key] = None if key in known and known[key] != put else put
    found = []
    for each in _made_from(change.path):
        code = each.__code__
        place = code.co_name, code.co_firstlineno
        try:
            hash(code)
        except TypeError:  # Dynamo made it: its constants may be anything.
            continue
        if code not in by_code and place not in by_place:
            continue
        put = by_code[code] if code in by_code else by_place[place]
        if isinstance(put, CannotSwap):
            raise put
        if put is None:
            raise CannotSwap(f"it cannot be told which {code.co_name} of line {code.co_firstlineno} is changed")
        if code.co_freevars != put.co_freevars:
            raise CannotSwap(f"{code.co_name} closes over other variables then")
        found.append(_Swapped(each, code, put))
    if not found:
        raise CannotSwap(f"no function of {change.path} is left")
    return found


@cache
def _made_from(path: str) -> list[types.FunctionType]:
    """The functions of this process with code of a file. Cached, because going through all objects is slow."""
    gc.unfreeze()  # What a fork server froze would not be found.
    return [
        each for each in gc.get_objects()
        if type(each) is types.FunctionType and each.__code__.co_filename == path
    ]  # fmt: skip


def _pair(key: Key, code: types.CodeType, old: Mapping[Key, types.CodeType], new: Mapping[Key, types.CodeType]) -> Any:
    """The new code of a function, or why there is none. If functions of its name were added or removed, the one with
    the same body.
    """
    above, name = key[:-1], key[-1][0]
    mine, theirs = ([each for k, each in codes.items() if k[:-1] == above and k[-1][0] == name] for codes in (old, new))
    found: types.CodeType | None = new.get(key)
    if len(mine) != len(theirs):
        alike = [each for each in theirs if code_of(each) == code_of(code)]
        found = alike[0] if len(alike) == 1 else None
    if found is None:
        return CannotSwap(f"{name} is gone")
    if _signature(code) != _signature(found):
        return CannotSwap(f"{code.co_name} takes other arguments")
    return found


def _used(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _used(each)


def _texts(code: types.CodeType) -> Iterator[str]:
    """The names that code uses, and the texts in it: a buffer is registered by one."""
    yield from code.co_names
    yield from (each for each in code.co_consts if isinstance(each, str))


def _defined_in(code: types.CodeType, without: Collection[str]) -> Iterator[types.CodeType]:
    """The code of all functions that a module or a class defines, but for those of these names."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType) and each.co_name not in without:
            if each.co_flags & inspect.CO_OPTIMIZED:  # Not the body of a class.
                yield each
            yield from _defined_in(each, () if each.co_flags & inspect.CO_OPTIMIZED else _MADE_AT_ONCE)


def _changed_places(change: SourceChange) -> list[tuple[str, int, list[tuple[int, int]]]]:
    """Path and line of each changed place inside a function, and the lines of its statements."""
    tree = parsed(change.old)
    statements = _statements(tree)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    old, new = bare_lines(change.old), bare_lines(change.new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    found = []
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            continue
        begin, end = (first + 1, last) if last > first else (first, first + 1)
        places = [(one, two) for one, two in statements if one <= end and two >= begin]
        if last == first:
            put = next((line for line in new[new_first:new_last] if line.strip()), "")
            if not _is_inside(tree, first, _indent(put)):
                continue  # Between functions, as a new one is.
            within = [
                each.end_lineno or 0 for each in functions if each.body[0].lineno <= first < (each.end_lineno or 0)
            ]
            after = sorted(each for each in statements if within and first < each[0] <= min(within))[:1]
            # Below a docstring, between comments, or below a block that ends there: what comes next runs with it.
            if after and (not places or _indent(put) == _indent(old[after[0][0] - 1])):
                places = after
        if places:
            found.append((change.path, begin, places))
    return found


def _is_inside(tree: ast.AST, line: int, indent: int) -> bool:
    """Whether what is put behind a line, so far indented, belongs to a function or a lambda."""
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            last = each.end_lineno or 0
            is_next = line == last and not isinstance(each, ast.Lambda) and each.col_offset < indent
            if each.lineno <= line < last or is_next:
                return True
    return False


def _new_lines(change: SourceChange) -> set[int]:
    matcher = difflib.SequenceMatcher(None, bare_lines(change.old), bare_lines(change.new), autojunk=False)
    return {line + 1 for kind, _, _, first, last in matcher.get_opcodes() if kind != "equal"
            for line in range(first, last)}  # fmt: skip


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _statements(tree: ast.AST, inside: bool = False) -> list[tuple[int, int]]:
    """First and last line of each statement in functions, of a compound one only its head. A lambda outside functions
    counts too.
    """
    found = []
    for node in ast.iter_child_nodes(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and inside and not is_text:
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            found.append((node.lineno, max(node.lineno, last or node.lineno)))
        elif isinstance(node, ast.Lambda) and not inside:
            found.append((node.body.lineno, node.body.end_lineno or node.body.lineno))
        found += _statements(node, inside or is_function)
    return found


def _codes(source: str, path: str) -> dict[Key, types.CodeType]:
    """Every function's code in a source, by position."""
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
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return code.co_argcount, code.co_posonlyargcount, taken


def _spaces(functions: Sequence[_Swapped]) -> list[dict[str, Any]]:
    """The globals of functions, each once. Those of modules come last: if several define an operator, the last one is
    called, and a function pickled by value lacks what its own code does not use.
    """
    spaces = {id(each.function.__globals__): each.function.__globals__ for each in functions}
    modules = {id(vars(each)) for each in list(sys.modules.values()) if isinstance(each, types.ModuleType)}
    return sorted(spaces.values(), key=lambda space: id(space) in modules)
