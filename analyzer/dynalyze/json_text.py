"""Documents as indented JSON that may be looked at on a terminal: what would distort it there is spelled \\uXXXX."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dynalyze.render.visible import hidden


def json_text(document: Any) -> str:
    """The document, indented, with a newline at its end."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=1).decode()
    return "\n".join(map(_shown, text.split("\n"))) + "\n"


def _shown(line: str) -> str:
    """One line of JSON. Hidden characters stand inside of strings alone, where an escape means the same."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(json.dumps(each)[1:-1] if hidden(each) else each for each in line)
