"""Words as a shell takes them, and as a terminal may show them."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from dynalyze.text.visible import visible


def shell_word(text: str) -> str:
    """A word quoted for bash and zsh; one with a newline or what a terminal obeys is spelled out: `$'a\\nb'`."""
    if visible(text) == text and "\n" not in text:
        return shlex.quote(text)
    return "$'" + "".join(map(_spelled, text)) + "'"


def _spelled(character: str) -> str:
    if character in "'\\":
        return f"\\{character}"
    if visible(character) == character and character != "\n":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))


def path_word(path: Path) -> str:
    """A path as such a word, from the current folder on where it is below; never to be taken for an option."""
    text = short_path(path)
    return shell_word(f"./{text}" if text.startswith("-") else text)


def short_path(path: Path) -> str:
    """A path from the current folder on where it is below."""
    with contextlib.suppress(OSError, ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
