"""A label before every line of the target's output, for people who watch both of us in one terminal."""

from __future__ import annotations

import re
from typing import Literal

Source = Literal["stdout", "stderr"]

_LINE_END = re.compile(rb"([\r\n])")
_RESET = b"\x1b[0m"


class Prefixer:
    """Puts a prefix before each line of two streams that share one screen. Nothing of theirs is taken away.

    A line may come in pieces. A carriage return starts its line again (progress bars), so the prefix comes
    again too. Where one stream leaves a line open and the other goes on, the second starts on a line of its
    own.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._open_by: Source | None = None  # whose line holds text and has not ended
        self._owed = True  # the next text needs the prefix first
        self._styled = False  # an escape sequence went by since the last reset

    @property
    def in_line(self) -> bool:
        """True while the last line has no end yet."""
        return self._open_by is not None

    def feed(self, source: Source, data: bytes) -> bytes:
        """What to write for the next piece of one stream."""
        out: list[bytes] = []
        if self._open_by not in (None, source):
            out.append(self.close())
        for part in _LINE_END.split(data):
            if part == b"\n":
                self._end_line(out)
            elif part == b"\r":
                out.append(part)
                self._owed = True
            elif part:
                self._text(source, part, out)
        return b"".join(out)

    def close(self) -> bytes:
        """What to write so that the next writer starts on a clean line."""
        reset = self._reset()
        if self._open_by is None:
            return reset
        self._open_by = None
        self._owed = True
        return reset + b"\n"

    def _text(self, source: Source, text: bytes, out: list[bytes]) -> None:
        self._begin(out)
        out.append(text)
        self._open_by = source
        self._styled = self._styled or b"\x1b" in text

    def _end_line(self, out: list[bytes]) -> None:
        if self._open_by is None:
            self._begin(out)  # an empty line shows whose it is
        out.append(b"\n")
        self._open_by = None
        self._owed = True

    def _begin(self, out: list[bytes]) -> None:
        if self._owed:
            out += [self._reset(), self._prefix]
            self._owed = False

    def _reset(self) -> bytes:
        styled, self._styled = self._styled, False
        return _RESET if styled else b""
