"""Files of Python as bytes and as the text that Python reads: a changed text gets the encoding, the byte order mark and
the line ends that its file has, and every line that stays keeps its bytes.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dynalyze.capture.source_lines import bare_lines
from dynalyze.fix.lines import line_map

_END = re.compile(rb"\r\n|\r|\n")
_MARK = b"\xef\xbb\xbf"
_MARKED = "utf-8-sig"


class CannotWrite(Exception):
    """A text that its file cannot hold without other bytes in lines that stay; the message says why."""


@dataclass(frozen=True)
class FileText:
    """What a file holds, and what Python reads of it: decoded, without the mark, and each line ended by "\\n"."""

    content: bytes
    encoding: str
    text: str

    @classmethod
    def of(cls, content: bytes) -> FileText:
        """Raises SyntaxError or ValueError where Python could not read it."""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        ends = io.IncrementalNewlineDecoder(None, translate=True)
        return cls(content, encoding, ends.decode(content.decode(encoding), final=True))

    @classmethod
    def read(cls, file: str) -> FileText | None:
        """That of a path; None where it cannot be read."""
        try:
            return cls.of(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None

    def content_of(self, text: str) -> bytes:
        """The bytes of the file with another text. Raises CannotWrite: the encoding has no bytes for it, or its lines
        cannot be told from each other.
        """
        if text == self.text:
            return self.content
        mark = _MARK if self.encoding == _MARKED else b""
        known = _lines_of(self.content.removeprefix(mark))
        if len(known) != len(bare_lines(self.text)):
            raise CannotWrite(f"its lines cannot be told from each other in {self.encoding}")
        kept = line_map(self.text, text)
        end = next((end for _, end in known if end), b"\n")
        made = [mark]
        lines = bare_lines(text)
        for number, line in enumerate(lines, 1):
            if number in kept:
                content, own = known[kept[number] - 1]
                end = own or end
            else:
                content = self._encoded(line)
            made += [content, end if number < len(lines) or text.endswith("\n") else b""]
        content = b"".join(made)
        try:
            same = FileText.of(content).text == text
        except (SyntaxError, ValueError):
            same = False
        if not same:
            raise CannotWrite(f"its line ends or its encoding ({self.encoding}) cannot be kept")
        return content

    def exact(self, text: str) -> str:
        """A text with the mark and the line ends that its file has."""
        return self.content_of(text).decode(self._codec)

    def encoded(self, exact: str) -> bytes:
        """The bytes of a part of such a text."""
        return exact.encode(self._codec, errors="backslashreplace")

    def _encoded(self, line: str) -> bytes:
        try:
            return line.encode(self._codec)
        except UnicodeEncodeError as error:
            raise CannotWrite(f"its encoding, {self.encoding}, has no {line[error.start]!r}") from error

    @property
    def _codec(self) -> str:
        return "utf-8" if self.encoding == _MARKED else self.encoding


class Originals(dict[str, str]):
    """The texts of files, by path, as they were when they were first read, with what each file held."""

    def __init__(self, files: Iterable[str] = ()) -> None:
        super().__init__()
        self.sources: dict[str, FileText] = {}
        for file in files:
            self.read(file)

    def read(self, file: str) -> str | None:
        """A file's text; None where it cannot be read."""
        if file not in self and (source := FileText.read(file)) is not None:
            self.sources[file], self[file] = source, source.text
        return self.get(file)


def source_of(originals: Mapping[str, str], file: str) -> FileText:
    """What a file held whose text is among these; UTF-8 where only its text is known."""
    known = originals.sources.get(file) if isinstance(originals, Originals) else None
    return known or FileText(originals[file].encode(), "utf-8", originals[file])


def _lines_of(content: bytes) -> list[tuple[bytes, bytes]]:
    """Lines and their ends, as Python ends them."""
    found, at = [], 0
    for end in _END.finditer(content):
        found.append((content[at : end.start()], end[0]))
        at = end.end()
    return [*found, (content[at:], b"")] if at < len(content) else found
