"""The text of a failed guard, without what torch adds to it. Used in the child and in the parent."""

from __future__ import annotations

import re

# A comment begins after two blanks, and never inside a string.
_COMMENT = re.compile(r"^((?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^'\"])*?)[ \t]{2,200}# .*$", re.DOTALL)
_HINT = re.compile(r"\s*\(?HINT: .*$", re.DOTALL)


def bare_guard(text: str) -> str:
    """The guard itself: its first line, without the comment that names its origin and without torch's hint."""
    lines = text.strip().splitlines()
    head = lines[0] if lines else ""
    found = _COMMENT.match(head)
    return _HINT.sub("", found[1] if found else head).strip()
