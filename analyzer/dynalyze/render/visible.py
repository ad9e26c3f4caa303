"""Text from a run, made safe to look at: control, bidirectional and other hidden characters are shown."""

from __future__ import annotations

TAB = "    "

# Control pictures for the C0 controls (U+0000 becomes U+2400, and so on), and for DEL.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}


def visible(text: str) -> str:
    """The text with every unprintable character shown (`␛`, `\\u202e`); newlines stay, tabs become spaces.

    Each character is replaced by itself, without regard to its neighbours, so a column of the raw text is
    found again as `len(visible(text[:column]))`.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _spelled(character) for character in text)


def clipped(text: str, limit: int) -> str:
    """The text, cut at `limit` characters with a note of how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} characters omitted)"


def _spelled(character: str) -> str:
    if character == "\n":
        return character
    if character == "\t":
        return TAB
    code = ord(character)
    if code in _PICTURES:
        return _PICTURES[code]
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
