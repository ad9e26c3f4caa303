"""Text from a run, made safe to look at: control, bidirectional and other hidden characters are shown. Words quoted for
a shell. Our own lines on standard error, each on one line whatever it quotes.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path

TAB = "    "

# Control pictures for the C0 controls (U+0000 becomes U+2400, and so on), and for DEL.
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421", 0x09: TAB}

# Printable to Python, yet nothing is seen of them: fillers and joiners, which can hide a difference between two
# names, and the selectors that can carry a hidden text. U+FE0F stays: it makes an emoji of a sign.
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE0F), *range(0xE0100, 0xE01F0))))
)


def visible(text: str) -> str:
    """The text with every unprintable character shown (`␛`, `\\u202e`); newlines stay, tabs become spaces.

    Characters are replaced one by one, so column `c` of the raw text becomes `len(visible(text[:c]))`.
    """
    return "\n".join(map(_visible_line, text.split("\n"))) if "\n" in text else _visible_line(text)


def _visible_line(line: str) -> str:
    if line.isprintable() and (line.isascii() or _UNSEEN.isdisjoint(line)):
        return line
    return "".join(_spelled(character) if hidden(character) else character for character in line)


def one_line(text: str) -> str:
    """The visible text on one line: a newline in a name must not forge a line of ours."""
    return visible(text.replace("\n", "␊"))


def hidden(character: str) -> bool:
    """Whether a character is not seen, or changes how others are shown."""
    return not character.isprintable() or character in _UNSEEN


def clipped(text: str, limit: int) -> str:
    """The text, cut at `limit` characters, with the number of those left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} characters omitted)"


def _spelled(character: str) -> str:
    code = ord(character)
    return _PICTURES.get(code) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def notice(text: str) -> str:
    """Our line for a text, safe to print."""
    return f"dynalyze: {one_line(text)}"


def say(text: str) -> None:
    """Print a line of ours on standard error, if that can be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(notice(text), file=sys.stderr, flush=True)


def shell_word(text: str) -> str:
    """A word quoted for bash and zsh; with newlines and hidden characters as escapes: `$'a\\nb'`."""
    if visible(text) == text and "\n" not in text:
        return shlex.quote(text)
    return "$'" + "".join(map(_quoted, text)) + "'"


def _quoted(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if visible(character) == character and character != "\n":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def dashed(name: str) -> str:
    """A name of Python's as options and keys are written: `no-source`."""
    return name.replace("_", "-")


def path_word(path: Path) -> str:
    """A short path quoted for a shell, which is never taken for an option."""
    text = short_path(path)
    return shell_word(f"./{text}" if text.startswith("-") else text)


def short_path(path: Path) -> str:
    """The path from the current folder on, where it is below."""
    with contextlib.suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
