"""The target's output: a thread reads its pipes, passes it on to our standard error, and keeps its last lines.

On a terminal each line has a label, and a status line of our own may stand below. Bytes pass undecoded.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal, TextIO

from dynalyze.text.amounts import count_of, how_often
from dynalyze.text.escape import notice, one_line, say

_NO_SUCH_THING = (OSError, ValueError, AttributeError)  # how streams say that they have no descriptor
Source = Literal["stdout", "stderr"]

_LINE_END = re.compile(rb"([\r\n])")
_RESET = b"\x1b[0m"
_LONGEST = 64 * 1024
# What differs in one and the same line of torch's log: when it was written, and by which process.
_STAMP = re.compile(rb"^[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ ")
_TAIL_BYTES = 16 * 1024
_TAIL_LINES = 20
_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CLEAR_LINE = b"\r\x1b[K"
_CHUNK = 64 * 1024
# No pipe holds more (Linux's default limit for a pipe is this); what is in it is all that a dead writer left.
_MOST_LEFT_BEHIND = 1024 * 1024


class Sink:
    """Writes bytes to a stream, undecoded where it has a descriptor; drops them once nobody reads it any more."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._descriptor: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with contextlib.suppress(*_NO_SUCH_THING):
            self._descriptor = None if stream is None else stream.fileno()

    def write(self, data: bytes) -> None:
        if not data or self._stream is None:  # a program without a console has none
            return
        try:
            self._write(self._stream, data)
        except (OSError, ValueError):  # the reader of a pipe has left, or the file was closed
            self._stream = None

    def is_terminal(self) -> bool:
        with contextlib.suppress(*_NO_SUCH_THING):
            return self._stream is not None and self._stream.isatty()
        return False

    def width(self) -> int:
        with contextlib.suppress(*_NO_SUCH_THING):
            if self._descriptor is not None:
                return os.get_terminal_size(self._descriptor).columns or 80
        return 80

    def _write(self, stream: TextIO, data: bytes) -> None:
        if self._descriptor is None:
            buffer: BinaryIO | None = getattr(stream, "buffer", None)
            stream.flush()
            if buffer is None:
                stream.write(self._decoder.decode(data))
            else:
                buffer.write(data)
            (buffer or stream).flush()
            return
        with contextlib.suppress(BlockingIOError):
            stream.flush()  # what we said before it comes before it
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # a program that shares the terminal made it non-blocking
                poller = select.poll()
                poller.register(self._descriptor, select.POLLOUT)
                poller.poll()


class Prefixer:
    """Puts a prefix before each line of two streams that share one screen, and removes nothing.

    A line may come in pieces. After a carriage return (progress bars) the prefix comes again. Where one stream leaves
    a line open, the other one starts on a line of its own.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._open_by: Source | None = None  # whose line holds text and has not ended
        self._owed = True  # the next text needs the prefix first
        self._styled = False  # an escape sequence went by since the last reset

    @property
    def in_line(self) -> bool:
        return self._open_by is not None

    def feed(self, source: Source, data: bytes) -> bytes:
        """What to write for the next piece of one stream."""
        out: list[bytes] = []
        if self._open_by not in (None, source):
            out.append(self.close())
        for part in _LINE_END.split(data):
            if part == b"\n":
                if self._open_by is None:
                    self._begin(out)  # an empty line shows whose it is
                out.append(b"\n")
                self._open_by = None
                self._owed = True
            elif part == b"\r":
                out.append(part)
                self._owed = True
            elif part:
                self._begin(out)
                out.append(part)
                self._open_by = source
                self._styled = self._styled or b"\x1b" in part
        return b"".join(out)

    def close(self) -> bytes:
        """What ends an open line and its colours."""
        reset = self._reset()
        if self._open_by is None:
            return reset
        self._open_by = None
        self._owed = True
        return reset + b"\n"

    def _begin(self, out: list[bytes]) -> None:
        if self._owed:
            out += [self._reset(), self._prefix]
            self._owed = False

    def _reset(self) -> bytes:
        styled, self._styled = self._styled, False
        return _RESET if styled else b""


class Repeats:
    """Passes each line on, whole, when it comes for the first time."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()
        self._open: dict[Source, bytes] = {}

    def new(self, source: Source, data: bytes) -> bytes:
        """The new lines of the next piece of a stream."""
        *lines, rest = (self._open.get(source, b"") + data).split(b"\n")
        if len(rest) > _LONGEST:
            lines, rest = [*lines, rest], b""
        self._open[source] = rest
        return b"".join(line + b"\n" for line in lines if self._is_new(line))

    def rest(self) -> list[tuple[Source, bytes]]:
        """New lines without an end."""
        left, self._open = self._open, {}
        return [(source, line) for source, line in left.items() if line and self._is_new(line)]

    def summary(self) -> str:
        """How many lines came again, and how often; "" where none did."""
        again = [count - 1 for line, count in self._seen.items() if count > 1 and line.strip()]
        return f"{count_of(len(again), 'line')} above came again, {how_often(sum(again))} in all" if again else ""

    def _is_new(self, line: bytes) -> bool:
        key = _STAMP.sub(b"", line)
        self._seen[key] += 1
        return self._seen[key] == 1


class Streams:
    """Passes on what the target writes, from any thread: labelled lines on a terminal, byte for byte elsewhere.

    `quiet` drops it. With `once` lines that come again are only counted, and `close` says how often. `stream` is by
    default our standard error. The last lines of standard error are kept, and the first `kept` bytes of each stream.
    """

    def __init__(
        self, label: str, *, quiet: bool = False, once: bool = False, stream: TextIO | None = None, kept: int = 0
    ) -> None:
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
        self._kept: dict[Source, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._most_kept = kept

    def feed(self, source: Source, data: bytes) -> None:
        with self._lock:
            self._kept[source] += data[: self._most_kept - len(self._kept[source])]
            if source == "stderr":
                self._tail += data[-_TAIL_BYTES:]
                del self._tail[:-_TAIL_BYTES]
            if self._quiet:
                return
            self._show(source, data if self._repeats is None else self._repeats.new(source, data))

    def status(self, text: str) -> None:
        """Show a line below the target's output until the next call; "" removes it. Does nothing unless `renews`."""
        if self._prefixer is None or not self.renews:
            return
        with self._lock:
            self._status = one_line(text)[: self._sink.width() - 1].encode(errors="replace")
            self._sink.write(self._around_status(self._prefixer, b""))

    @property
    def renews(self) -> bool:
        """Whether a line can be taken back: on a terminal that is not dumb."""
        return self._prefixer is not None and os.environ.get("TERM") != "dumb"

    def say(self, line: str) -> None:
        """Show a line of the caller's own."""
        with self._lock:
            data = f"{line}\n".encode(errors="replace")
            self._sink.write(data if self._prefixer is None else self._around_status(self._prefixer, data))

    def close(self) -> None:
        """Leave a terminal at the start of a line, in its own colours."""
        self.status("")
        with self._lock:
            repeats, self._repeats = self._repeats, None
            for source, data in repeats.rest() if repeats is not None else ():
                self._show(source, data)
            if self._prefixer is not None:
                self._sink.write(self._prefixer.close())
        if repeats is not None and (said := repeats.summary()):
            self.say(notice(said))

    def lines(self, source: Source) -> list[str]:
        """The kept beginning of a stream, as a person would have seen it, without colours."""
        with self._lock:
            text = _without_escapes(self._kept[source])
        return [_overwritten(line).rstrip() for line in text.split("\n")]

    def last_lines(self) -> list[str]:
        """The last lines of standard error, as a person would have seen them, without colours."""
        with self._lock:
            text, is_cut = _without_escapes(self._tail).rstrip(), len(self._tail) == _TAIL_BYTES
        lines = text.split("\n") if text else []
        if is_cut and len(lines) > 1:
            del lines[0]
        return [_overwritten(line) for line in lines[-_TAIL_LINES:]]

    def _show(self, source: Source, data: bytes) -> None:
        if self._prefixer is not None:
            data = self._around_status(self._prefixer, self._prefixer.feed(source, data))
        self._sink.write(data)

    def _around_status(self, prefixer: Prefixer, output: bytes) -> bytes:
        """The output with the status line, which stands where the next line goes, taken away and shown below it."""
        before = _CLEAR_LINE if self._status_shown else b""
        after = b"" if prefixer.in_line else self._status
        self._status_shown = bool(after)
        return before + output + after


def _without_escapes(data: bytearray) -> str:
    return _ESCAPE_SEQUENCE.sub("", data.decode(errors="replace"))


def _overwritten(line: str) -> str:
    """What is seen of a line with carriage returns in it."""
    return line.rstrip("\r").rpartition("\r")[2]


class Pump:
    """Reads two pipes into Streams inside its `with` block; `stdout` and `stderr` are the ends to write to.

    Leaving the block passes on what is still in the pipes, whoever else holds their other ends.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        out, self.stdout = os.pipe()
        error, self.stderr = os.pipe()
        self._pipes: dict[int, Source] = {out: "stdout", error: "stderr"}
        self._finish, self._finisher = os.pipe()
        self._thread = threading.Thread(target=self._run, name="dynalyze-pump", daemon=True)

    def __enter__(self) -> Pump:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        for descriptor in (self._finisher, self.stdout, self.stderr):
            os.close(descriptor)
        self._thread.join()

    def _run(self) -> None:
        poller = select.poll()
        for reader in (*self._pipes, self._finish):
            poller.register(reader, select.POLLIN)
        while self._finish not in (ready := [descriptor for descriptor, _ in poller.poll()]):
            for reader in ready:
                self._pass_on(reader)
        for reader in self._pipes:
            self._drain(reader)
        for descriptor in (*self._pipes, self._finish):
            os.close(descriptor)

    def _pass_on(self, reader: int) -> int:
        data = os.read(reader, _CHUNK)
        if data:
            self._streams.feed(self._pipes[reader], data)
        return len(data)

    def _drain(self, reader: int) -> None:
        os.set_blocking(reader, False)
        left = _MOST_LEFT_BEHIND
        try:
            while left > 0 and (count := self._pass_on(reader)):
                left -= count
        except BlockingIOError:  # empty, and something still holds the other end
            return


def progress_line(streams: Streams) -> tuple[Callable[[str], None], float]:
    """What shows progress, and seconds between calls: a status line on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return streams.status, 1.0
    return say, 10.0


@contextmanager
def transient_progress() -> Iterator[Callable[[str], None]]:
    """What shows each step; on a terminal nothing of it stays."""
    with contextlib.closing(Streams("")) as streams:
        yield progress_line(streams)[0]
