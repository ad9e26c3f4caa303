"""Writing bytes to our standard error, be it a terminal, a test's buffer or a notebook's cell."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
from collections.abc import Callable
from typing import BinaryIO, TextIO

_NO_SUCH_THING = (OSError, ValueError, AttributeError)  # how streams say that they have no descriptor


class Sink:
    """Passes bytes on, undecoded where that can be; drops them once nobody reads them any more."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._write = _writer(stream)

    def write(self, data: bytes) -> None:
        if not data:
            return
        try:
            self._write(data)
        except (OSError, ValueError):  # the reader of a pipe has left, or the file was closed
            self._write = _drop

    def is_terminal(self) -> bool:
        with contextlib.suppress(*_NO_SUCH_THING):
            return self._stream is not None and self._stream.isatty()
        return False

    def width(self) -> int:
        """Columns of the terminal."""
        with contextlib.suppress(*_NO_SUCH_THING):
            if self._stream is not None:
                return os.get_terminal_size(self._stream.fileno()).columns or 80
        return 80


def _writer(stream: TextIO | None) -> Callable[[bytes], None]:
    if stream is None:  # a program without a console has none
        return _drop
    with contextlib.suppress(*_NO_SUCH_THING):
        return _to_descriptor(stream, stream.fileno())
    buffer = getattr(stream, "buffer", None)
    return _to_text(stream) if buffer is None else _to_buffer(stream, buffer)


def _drop(data: bytes) -> None:
    """Where nothing can be written."""


def _to_descriptor(stream: TextIO, descriptor: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        with contextlib.suppress(BlockingIOError):
            stream.flush()  # what we said before it comes before it
        rest = memoryview(data)
        while rest:
            rest = rest[_write_some(descriptor, rest) :]

    return write


def _write_some(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:  # a program that shares the terminal made it non-blocking
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        poller.poll()
        return 0


def _to_buffer(stream: TextIO, buffer: BinaryIO) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        stream.flush()
        buffer.write(data)
        buffer.flush()

    return write


def _to_text(stream: TextIO) -> Callable[[bytes], None]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def write(data: bytes) -> None:
        stream.write(decoder.decode(data))
        stream.flush()

    return write
