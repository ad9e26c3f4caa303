"""The text of a failed guard, without what torch adds to it. Used in the child and in the parent."""

from __future__ import annotations

import re

_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_COMMENT = "  # "
_MOST_COMMENTS = 50


def bare_guard(text: str) -> str:
    """The guard itself: its first line, without the comment that names its origin and without torch's hint."""
    lines = text.strip().splitlines()
    head = _without_comment(lines[0]) if lines else ""
    before, found, _ = head.partition("HINT: ")
    return (before.rstrip().removesuffix("(") if found else head).strip()


def _without_comment(line: str) -> str:
    """A comment begins after two blanks, and never inside a string."""
    at = line.find(_COMMENT)
    for _ in range(_MOST_COMMENTS):
        if at < 0:
            return line
        if not {"'", '"'} & set(_STRING.sub("", line[:at])):
            return line[:at]
        at = line.find(_COMMENT, at + 1)
    return line
