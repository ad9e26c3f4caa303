"""Negates the condition of a branch in both sources, so that calls take the side that no input leads to.

If the new source chooses by the same condition (torch.where, torch.cond, an assertion in the graph), both give the same
result with it negated too, unless that side differs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from dynalyze.capture.fixing.records import SourceChange
from dynalyze.capture.source_lines import lines_of

_CHOOSING = ("where", "cond")
_Edit = tuple[ast.expr, str, str]
"""An expression, and what to write before and after it."""


def turned(change: SourceChange, lines: set[int]) -> Iterator[tuple[str, str]]:
    """Both sources with the condition of the branch negated to which these lines of the old one belong; several pairs
    if parts of it can be negated. None if the condition cannot be found in the new source.
    """
    old, new = ast.parse(change.old), ast.parse(change.new)
    branches = list(dict.fromkeys(each for each in _branches(old) if lines & {*_sides(old, each)}))
    before = Counter(ast.dump(each) for each in _choices(old))
    choices = {each: asked for each, asked in _choices(new).items() if ast.dump(each) not in before}
    conditions = {ast.dump(each) for each in choices.values()}
    if len(branches) != 1 or len(conditions) != 1:
        return
    test = branches[0].test
    kept = [each.test for each in _branches(new) if ast.dump(each.test) == ast.dump(test)]
    for part, same in _parts(test, kept):
        edits: list[_Edit] = [(each, "(~(", "))") for each in choices.values()]
        edits += [(each, "(not (", "))") for each in same]
        yield _written(change.old, [(part, "(not (", "))")]), _written(change.new, edits)


def _branches(tree: ast.AST) -> list[ast.If | ast.IfExp]:
    return [each for each in ast.walk(tree) if isinstance(each, ast.If | ast.IfExp)]


def _sides(tree: ast.AST, branch: ast.If | ast.IfExp) -> Iterator[int]:
    """The first lines of both sides of a branch; without `else` that is the next statement."""
    if isinstance(branch, ast.IfExp):
        return
    yield branch.body[0].lineno
    if branch.orelse:
        yield branch.orelse[0].lineno
        return
    for node in ast.walk(tree):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and branch in block and branch is not block[-1]:
                yield block[block.index(branch) + 1].lineno


def _choices(tree: ast.AST) -> dict[ast.AST, ast.expr]:
    """Calls of torch that choose by their first argument, and assertions, each with its condition."""
    found: dict[ast.AST, ast.expr] = {each: each.test for each in ast.walk(tree) if isinstance(each, ast.Assert)}
    for each in ast.walk(tree):
        function = each.func if isinstance(each, ast.Call) and each.args else None
        if isinstance(function, ast.Attribute) and function.attr in _CHOOSING and isinstance(function.value, ast.Name):
            found[each] = each.args[0]  # type: ignore[attr-defined]
    return found


def _parts(test: ast.expr, kept: list[ast.expr]) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """A condition and each of its parts, with the same in the other source."""
    yield test, kept
    if isinstance(test, ast.BoolOp):
        for number, part in enumerate(test.values):
            yield part, [each.values[number] for each in kept if isinstance(each, ast.BoolOp)]


def _written(source: str, edits: list[_Edit]) -> str:
    """The source with text around some expressions; all lines keep their numbers."""
    lines = [line.encode() for line in lines_of(source)]
    places = [(each.lineno, each.col_offset, before) for each, before, _ in edits]
    places += [(each.end_lineno or 0, each.end_col_offset or 0, after) for each, _, after in edits]
    for line, column, text in sorted(places, reverse=True):
        whole = lines[line - 1]
        lines[line - 1] = whole[:column] + text.encode() + whole[column:]
    return b"".join(lines).decode()
