"""Where the condition of an `if`, `while` or `assert` stands in its line."""

from __future__ import annotations

import ast
import contextlib


def condition_span(line: str) -> tuple[int, int] | None:
    """The characters of a line from which to which its condition goes; None where it has none, or not all of it."""
    code = line.lstrip()
    before = len(line) - len(code)
    if code.startswith("elif"):
        code, before = code[2:], before + 2
    for text in (code, f"{code}\n    pass"):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            (statement,) = ast.parse(text).body
            if isinstance(statement, ast.If | ast.While | ast.Assert) and statement.test.end_lineno == 1:
                begins, ends = statement.test.col_offset, statement.test.end_col_offset or 0
                return before + _characters(code, begins), before + _characters(code, ends)
    return None


def _characters(text: str, byte: int) -> int:
    return len(text.encode()[:byte].decode())
