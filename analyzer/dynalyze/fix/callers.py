"""The lines of a program that call its model, changed so that they give numbers of Python: `sizes=sizes.tolist()`.

What compiled code reads of such an argument is known before then, and does not break the graph.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynalyze.fix.lines import line_before

_PLAIN = (ast.Name, ast.Attribute, ast.Subscript)

Given = ast.expr | ast.keyword
"""What a call gives as an argument: an expression, or a dictionary with all of them, as `**name`."""
Edit = tuple[int, int, bytes]
"""First byte, the byte after the last, and what stands there then."""


@dataclass(frozen=True)
class CallingLines:
    """Where a program calls its model, as files and lines, and the names of the model's arguments by their place."""

    places: Sequence[tuple[str, int]] = ()
    arguments: Sequence[str] = ()

    def with_numbers(
        self, originals: Mapping[str, str], texts: Mapping[str, str], names: Sequence[str]
    ) -> dict[str, str] | None:  # fmt: skip
        """The files with every call giving these arguments as numbers; None where one does not show how. A name like
        `numbers=sizes` is an argument that gets those of another one. Lines are those of the `originals`.
        """
        changed: dict[str, str] = {}
        for file, places in itertools.groupby(sorted(set(self.places)), lambda each: each[0]):
            lines = [line_before(texts[file], originals[file], line) for _, line in places]
            calls = [None if line is None else self._call(texts[file], line, names) for line in lines]
            found = [each for each in calls if each is not None]
            if len(found) < len(calls):
                return None
            changed[file] = _edited(texts[file], [edit for each in found for edit in each])
        return changed or None

    def _call(self, text: str, line: int, names: Sequence[str]) -> list[Edit] | None:
        """The edits for the one call on a line that gives all of these arguments; None where none or several do."""
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return None
        starts = list(itertools.accumulate((len(each) + 1 for each in text.encode().split(b"\n")), initial=0))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)
                 and node.lineno <= line <= (node.end_lineno or node.lineno)]  # fmt: skip
        ways = [{name: self._value(node, name.rpartition("=")[2]) for name in names} for node in calls]
        found = [_edits(node, way, text, starts) for node, way in zip(calls, ways, strict=True)]
        fitting = [each for each in found if each is not None]
        return fitting[0] if len(fitting) == 1 else None

    def _value(self, call: ast.Call, name: str) -> Given | None:
        for each in call.keywords:
            if each.arg == name:
                return each.value
        place = self.arguments.index(name) if name in self.arguments else len(call.args)
        if place < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: place + 1]):
            return call.args[place]
        held = [each for each in call.keywords if each.arg is None and isinstance(each.value, ast.Name)]
        return held[0] if len(held) == 1 else None


def _edits(
    call: ast.Call, given: Mapping[str, Given | None], text: str, starts: Sequence[int]
) -> list[Edit] | None:  # fmt: skip
    """How a call gives these arguments as numbers; None where it lacks one."""
    edits: list[Edit] = []
    held: dict[ast.keyword, list[str]] = {}
    whole = text.encode()
    for name, value in given.items():
        new, beside, old = name.partition("=")
        if isinstance(value, ast.keyword):
            assert isinstance(value.value, ast.Name)
            held.setdefault(value, []).append(f'"{new}": {value.value.id}["{old or new}"].tolist()')
            continue
        if value is None or (beside and not isinstance(value, _PLAIN)):
            return None
        start, end = _span(value, starts)
        code = whole[start:end].decode()
        numbers = f"{code}.tolist()" if isinstance(value, (*_PLAIN, ast.Call)) else f"({code}).tolist()"
        if beside:
            arguments: list[Given] = [*call.args, *call.keywords]
            last = max(_span(each, starts)[1] for each in arguments)
            edits.append((last, last, f", {new}={numbers}".encode()))
        else:
            edits.append((start, end, numbers.encode()))
    for whole_of, entries in held.items():
        named = whole[slice(*_span(whole_of.value, starts))].decode()
        edits.append((*_span(whole_of, starts), f"**{{**{named}, {', '.join(entries)}}}".encode()))
    return edits


def _span(node: Given, starts: Sequence[int]) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _edited(text: str, edits: Sequence[Edit]) -> str:
    whole = text.encode()
    for start, end, new in sorted(set(edits), reverse=True):
        whole = whole[:start] + new + whole[end:]
    return whole.decode()
