"""Where the target's output goes: to our standard error as it comes, and its last lines into memory."""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import TextIO

from dynalyze.launch.prefix import Prefixer, Source
from dynalyze.launch.repeats import Repeats
from dynalyze.launch.sink import Sink
from dynalyze.text.visible import notice, one_line

_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 20
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CLEAR_LINE = b"\r\x1b[K"


class Streams:
    """Passes on what the target writes: with a label before each line on a terminal, byte for byte elsewhere.

    `quiet` drops it; the last lines of its standard error are kept all the same. With `once` a line that comes again is
    counted instead, and `close` tells how often. `stream` is our own standard error unless the caller has another.
    Everything here may be called from any thread.
    """

    def __init__(self, label: str, *, quiet: bool = False, once: bool = False, stream: TextIO | None = None) -> None:
        self._sink = Sink(sys.stderr if stream is None else stream)
        self._lock = threading.Lock()
        self._quiet = quiet
        self._repeats = Repeats() if once and not quiet else None
        self._prefixer: Prefixer | None = None
        if self._sink.is_terminal():
            self._prefixer = Prefixer(f"{one_line(label)} | ".encode(errors="replace"))
        self._status = b""
        self._status_shown = False
        self._tail = bytearray()

    def feed(self, source: Source, data: bytes) -> None:
        """Takes the next piece of one stream of the target."""
        with self._lock:
            if source == "stderr":
                self._tail += data[-_TAIL_BYTES:]
                del self._tail[:-_TAIL_BYTES]
            if self._quiet:
                return
            self._show(source, data if self._repeats is None else self._repeats.new(source, data))

    def status(self, text: str) -> None:
        """Shows one line of ours below the target's output until the next call; "" removes it.

        Only on a terminal: elsewhere it does nothing, as such a line cannot be taken back.
        """
        if self._prefixer is None or os.environ.get("TERM") == "dumb":
            return
        with self._lock:
            self._status = one_line(text)[: self._sink.width() - 1].encode(errors="replace")
            self._sink.write(self._around_status(self._prefixer, b""))

    def close(self) -> None:
        """Leaves a terminal at the start of a line, with its colours as they were."""
        self.status("")
        with self._lock:
            repeats, self._repeats = self._repeats, None
            for source, data in repeats.rest() if repeats is not None else ():
                self._show(source, data)
            if self._prefixer is not None:
                self._sink.write(self._prefixer.close())
            for line in repeats.told() if repeats is not None else ():
                self._sink.write(f"{notice(line)}\n".encode(errors="replace"))

    def last_lines(self) -> list[str]:
        """The last lines of the target's standard error as a person would have seen them, without colours."""
        with self._lock:
            tail = bytes(self._tail)
        text = _ESCAPE_SEQUENCE.sub("", tail.decode(errors="replace")).rstrip()
        lines = text.split("\n") if text else []
        if len(tail) == _TAIL_BYTES and len(lines) > 1:
            del lines[0]  # its beginning is lost
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-_TAIL_LINES:]]

    def _show(self, source: Source, data: bytes) -> None:
        if self._prefixer is not None:
            data = self._around_status(self._prefixer, self._prefixer.feed(source, data))
        self._sink.write(data)

    def _around_status(self, prefixer: Prefixer, output: bytes) -> bytes:
        """The status line stands where the target's next line goes, and comes back below that line."""
        before = _CLEAR_LINE if self._status_shown else b""
        after = b"" if prefixer.in_line else self._status
        self._status_shown = bool(after)
        return before + output + after
