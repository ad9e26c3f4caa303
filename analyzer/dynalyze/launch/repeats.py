"""Lines that many processes print in turn, each shown once and counted."""

from __future__ import annotations

import re
from collections import Counter

from dynalyze.launch.prefix import Source

_TOLD = 5
"""Lines whose count is told each by itself."""

_LONGEST = 64 * 1024
# What differs in one and the same line of torch's log: when it was written, and by which process.
_STAMP = re.compile(rb"^[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ")
_WORDS = 100


class Repeats:
    """Passes a line on when it comes for the first time. A line is passed on whole."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self._open: dict[Source, bytes] = {}

    def new(self, source: Source, data: bytes) -> bytes:
        """What is new in the next piece of a stream."""
        *lines, rest = (self._open.get(source, b"") + data).split(b"\n")
        if len(rest) > _LONGEST:
            lines, rest = [*lines, rest], b""
        self._open[source] = rest
        return b"".join(line + b"\n" for line in lines if self._is_new(line))

    def rest(self) -> list[tuple[Source, bytes]]:
        """The new lines that have had no end by now."""
        left, self._open = self._open, {}
        return [(source, line) for source, line in left.items() if line and self._is_new(line)]

    def told(self) -> list[str]:
        """How often lines came again: the most frequent by themselves, the others together."""
        again = [(line, count - 1) for line, count in self._seen.most_common() if count > 1 and line.strip()]
        told = [f"{_times(count)} more: {_shortened(line)}" for line, count in again[:_TOLD]]
        if others := again[_TOLD:]:
            told.append(f"{len(others)} other lines came {_times(sum(count for _, count in others))} more")
        return told

    def _is_new(self, line: bytes) -> bool:
        key = _STAMP.sub(b"", line)
        self._seen[key] += 1
        return self._seen[key] == 1


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _shortened(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return text if len(text) <= _WORDS else text[: _WORDS - 3] + "..."
