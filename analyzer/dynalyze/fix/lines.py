"""Where lines of a text went in another version of it."""

from __future__ import annotations

import difflib
from functools import lru_cache


@lru_cache(maxsize=64)
def line_map(before: str, after: str) -> dict[int, int]:
    """For each line of `after` that stands in `before` too, its number there. Lines count from 1."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in matcher.get_matching_blocks() for offset in range(block.size)
    }  # fmt: skip


def line_before(before: str, after: str, line: int) -> int | None:
    """The line of `before` that is this line of `after`; None where the change made it."""
    return line if before == after else line_map(before, after).get(line)


def line_instead_of(before: str, after: str, line: int) -> int | None:
    """The line of `before` in whose place this one stands, where as many lines were put as were taken away."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "replace" and new_first < line <= new_last and last - first == new_last - new_first:
            return first + line - new_first
    return None


def unified(before: str, after: str, name: str) -> str:
    """The change as a unified diff of a file of this name; empty where there is none."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
