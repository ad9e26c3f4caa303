"""Text from a run inside Markdown: it is shown as it is, and can neither format, link, mention nor embed anything."""

from __future__ import annotations

import re

from dynalyze.text.visible import clipped, visible

_LONGEST = 500
_SPAN = re.compile(r"`([^`]+)`")
# Whatever Markdown, HTML, or GitHub's mathematics may read as a mark; spelled as entities it is only a character.
_MARKS = re.compile(r"[&<>`\\*_\[\]#|~$@]|:(?=//)")
# GitHub makes a link of @name, #12 and www.name wherever they stand in a text: a character without width parts them.
_REFERENCE = re.compile(r"&#64;|&#35;|www(?=\.)", re.IGNORECASE)


def prose(text: str) -> str:
    """A sentence on one line. What stands between backticks stays code."""
    parts = _SPAN.split(_one_line(text))
    return "".join(_as_code(part) if number % 2 else _as_text(part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """A piece of code on one line; "" stays ""."""
    return _as_code(_one_line(text))


def _as_code(text: str) -> str:
    return f"<code>{_spelled(text)}</code>" if text.strip() else ""


def _as_text(text: str) -> str:
    return _REFERENCE.sub(lambda found: f"{found[0]}&#8203;", _spelled(text))


def _spelled(text: str) -> str:
    return _MARKS.sub(lambda found: f"&#{ord(found[0])};", text)


def _one_line(text: str) -> str:
    return clipped(visible(" ".join(text.split())), _LONGEST)
