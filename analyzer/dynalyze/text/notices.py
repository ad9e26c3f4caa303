"""Our own lines on standard error, beside what the target prints there: each on one line, whatever it quotes."""

from __future__ import annotations

import contextlib
import sys

from dynalyze.text.visible import one_line


def notice(text: str) -> str:
    """The line for a text: who says it, and nothing in it that could distort a terminal."""
    return f"dynalyze: {one_line(text)}"


def say(text: str) -> None:
    """Print one such line at once; where standard error takes none there is nobody to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(notice(text), file=sys.stderr, flush=True)
