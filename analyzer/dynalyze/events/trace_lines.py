"""Cuts a TORCH_TRACE log into records, in bounded memory and without looking at the lines of texts nobody wants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Generic, Protocol, TypeVar

_BLOCK = 1 << 20
# Longer lines are cut. torch's own stay far below: the longest are metrics, of some 50 KB.
LONGEST_LINE = 8 << 20
LONGEST_TEXT = 1 << 20
# A line that belongs to no text, with the newline before it. The regex engine skips to newlines at memory speed.
_NOT_TEXT = re.compile(rb"\n([^\t\n][^\n]*)")


class RecordHead(Protocol):
    """What a record's first line says. Without `has_text` the lines below it are skipped."""

    @property
    def has_text(self) -> bool: ...


Head = TypeVar("Head", bound=RecordHead)


class Foreign:
    """What `wanted` returns for a line that is no record: the text it stands in goes on after it."""


FOREIGN = Foreign()


@dataclass
class Record(Generic[Head]):
    """A wanted record: its first line, its text, and where in the file the text stands."""

    head: Head
    text: str
    start: int
    end: int


class RecordReader(Generic[Head]):
    """The records of one log. `wanted` reads a record's first line, and returns None where it is of no concern."""

    def __init__(self, wanted: Callable[[bytes], Head | Foreign | None]) -> None:
        self._wanted = wanted
        self._head: Head | None = None
        self._text = bytearray()
        self._start = 0

    def read(self, file: BinaryIO) -> Iterator[Record[Head]]:
        """Each wanted record, in order."""
        end = 0
        for offset, block in _blocks(file):
            at = 0
            for found in _NOT_TEXT.finditer(block):
                self._append(block, at, found.start())
                at = found.end()
                following = self._wanted(found[1])
                if isinstance(following, Foreign):
                    continue
                yield from self._finished(offset + found.start())
                self._head, self._start = following, offset + at
            self._append(block, at, len(block))
            end = offset + len(block)
        yield from self._finished(end)

    def _finished(self, end: int) -> Iterator[Record[Head]]:
        if self._head is not None:
            yield Record(self._head, _decoded(self._text), self._start, end)
        self._text.clear()

    def _append(self, block: bytes, start: int, end: int) -> None:
        room = LONGEST_TEXT - len(self._text)
        if self._head is not None and self._head.has_text and room > 0:
            self._text += block[start : min(end, start + room)]


def text_at(file: BinaryIO, start: int, end: int) -> str:
    """The text of a record that was read before."""
    file.seek(start)
    return _decoded(bytearray(file.read(min(end - start, LONGEST_TEXT))))


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole lines, a newline before each line and none at the end.

    With each piece goes the offset in the file of its first byte; that of the whole file is -1, for no newline is
    before it.
    """
    offset = file.tell()
    while block := file.read(_BLOCK):
        if not block.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE)
            block += rest
            _skip_to_newline(file, rest)
        yield offset - 1, b"\n" + block.removesuffix(b"\n")
        offset = file.tell()


def _skip_to_newline(file: BinaryIO, rest: bytes) -> None:
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(_BLOCK)


def _decoded(text: bytearray) -> str:
    return text.replace(b"\n\t", b"\n")[1:].decode(errors="replace")
