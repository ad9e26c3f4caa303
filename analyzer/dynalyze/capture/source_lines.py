"""The lines of source texts as Python and git count them: `str.splitlines` ends one at a form feed too."""

from __future__ import annotations


def lines_of(source: str) -> list[str]:
    """The lines of a text with their ends; "\\n" alone ends one. Python gives sources to its parser so."""
    *whole, last = source.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def bare_lines(source: str) -> list[str]:
    """The same without their ends."""
    return [line.removesuffix("\n") for line in lines_of(source)]
