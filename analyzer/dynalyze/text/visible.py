"""Text from a run, made safe to look at: control, bidirectional and other hidden characters are shown. Words as a
shell takes them.

And our own lines on standard error beside what the target prints there, each on one line, whatever it quotes.
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

    Each character is replaced by itself, without regard to its neighbours, so a column of the raw text is
    found again as `len(visible(text[:column]))`.
    """
    return "\n".join(map(_visible_line, text.split("\n"))) if "\n" in text else _visible_line(text)


def _visible_line(line: str) -> str:
    if line.isprintable() and (line.isascii() or _UNSEEN.isdisjoint(line)):
        return line
    return "".join(_spelled(character) if hidden(character) else character for character in line)


def one_line(text: str) -> str:
    """A text of the run, safe to look at and on one line: a newline in a name must not forge a line of ours."""
    return visible(text.replace("\n", "␊"))


def hidden(character: str) -> bool:
    """Whether a character shows nothing of its own, or changes how others are shown."""
    return not character.isprintable() or character in _UNSEEN


def clipped(text: str, limit: int) -> str:
    """The text, cut at `limit` characters with a note of how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} characters omitted)"


def _spelled(character: str) -> str:
    code = ord(character)
    return _PICTURES.get(code) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")


def notice(text: str) -> str:
    """The line for a text: who says it, and nothing in it that could distort a terminal."""
    return f"dynalyze: {one_line(text)}"


def say(text: str) -> None:
    """Print one such line at once; where standard error takes none there is nobody to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(notice(text), file=sys.stderr, flush=True)


def shell_word(text: str) -> str:
    """A word quoted for bash and zsh; one with a newline or what a terminal obeys is spelled out: `$'a\\nb'`."""
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
    """A path as such a word, from the current folder on where it is below; never to be taken for an option."""
    text = short_path(path)
    return shell_word(f"./{text}" if text.startswith("-") else text)


def short_path(path: Path) -> str:
    """A path from the current folder on where it is below."""
    with contextlib.suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
