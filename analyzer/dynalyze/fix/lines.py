"""Where lines of a text went in another version of it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache

from dynalyze.capture.source_lines import bare_lines, lines_of
from dynalyze.report import GraphBreak


@lru_cache(maxsize=64)
def line_map(before: str, after: str) -> dict[int, int]:
    """For each line of `after` that stands in `before` too, its number there. Lines count from 1."""
    matcher = difflib.SequenceMatcher(None, bare_lines(before), bare_lines(after), autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in matcher.get_matching_blocks() for offset in range(block.size)
    }  # fmt: skip


def line_before(before: str, after: str, line: int) -> int | None:
    """The line of `before` that is this line of `after`; None where the change made it."""
    return line if before == after else line_map(before, after).get(line)


def same_break(one: GraphBreak, other: GraphBreak, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a break of a run with the texts `now` is one of a run with those `before`, by type, file and line;
    columns count where both know them.
    """
    a, b = one.location, other.location
    line = line_before(before[b.file], now[b.file], b.line) if b.file in now else b.line
    columns = {a.column, b.column}
    return (a.file, a.line, one.gb_type) == (b.file, line, other.gb_type) and (None in columns or len(columns) == 1)


def line_instead_of(before: str, after: str, line: int) -> int | None:
    """The line of `before` in whose place this one stands, where as many lines were put as were taken away."""
    matcher = difflib.SequenceMatcher(None, bare_lines(before), bare_lines(after), autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "replace" and new_first < line <= new_last and last - first == new_last - new_first:
            return first + line - new_first
    return None


def combined(base: str, one: str, other: str) -> str | None:
    """`one` with what `other` changes of `base`; None where both change the same lines."""
    lines, before, after = lines_of(one), lines_of(base), lines_of(other)
    there = {old - 1: new - 1 for new, old in line_map(base, one).items()} | {-1: -1, len(before): len(lines)}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, new_first, new_last in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        around = [there.get(number) for number in range(first - 1, last + 1)]
        begin = around[0]
        if begin is None or around != list(range(begin, begin + len(around))):
            return None
        lines[begin + 1 : begin + 1 + last - first] = after[new_first:new_last]
    return "".join(lines)


def unified(before: str, after: str, name: str) -> str:
    """The change as a unified diff of a file of this name; empty where there is none."""
    lines = difflib.unified_diff(lines_of(before), lines_of(after), _named(f"a/{name}"), _named(f"b/{name}"))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _named(name: str) -> str:
    """A file's name as git writes it into a diff: quoted where it could end the line, with a tab behind a space."""
    quoted = {each for each in name if each in '"\\\x7f' or ord(each) < 32}
    if quoted:
        return '"' + "".join(f"\\{ord(each):03o}" if each in quoted else each for each in name) + '"'
    return f"{name}\t" if " " in name else name
