"""Python files as bytes and as the text that Python reads, the lines of one text in another, and diffs.

A changed text keeps the encoding, the byte order mark and the line ends of its file, and unchanged lines keep their
bytes.
"""

from __future__ import annotations

import difflib
import io
import sysconfig
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dynalyze.capture.source_lines import bare_lines, lines_of
from dynalyze.files.paths import package_path
from dynalyze.report import GraphBreak

_MARK = b"\xef\xbb\xbf"
_MARKED = "utf-8-sig"


class CannotWrite(Exception):
    """A text that its file cannot hold without changing the bytes of unchanged lines; the message says why."""


@dataclass(frozen=True)
class FileText:
    """The bytes of a file, and what Python reads: decoded, without the mark, each line ended by "\\n"."""

    content: bytes
    encoding: str
    text: str

    @classmethod
    def of(cls, content: bytes) -> FileText:
        """Raises SyntaxError or ValueError if Python could not read it."""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        ends = io.IncrementalNewlineDecoder(None, translate=True)
        return cls(content, encoding, ends.decode(content.decode(encoding), final=True))

    @classmethod
    def read(cls, file: str) -> FileText | None:
        try:
            return cls.of(Path(file).read_bytes())
        except (OSError, SyntaxError, ValueError):
            return None

    def content_of(self, text: str) -> bytes:
        """The bytes of the file with another text. Raises CannotWrite if the encoding cannot hold it, or its lines
        cannot be told apart.
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
    """The texts of files, by path, as they were first read, and what each file held."""

    def __init__(self, files: Iterable[str] = ()) -> None:
        super().__init__()
        self.sources: dict[str, FileText] = {}
        for file in files:
            self.read(file)

    def read(self, file: str) -> str | None:
        if file not in self and (source := FileText.read(file)) is not None:
            self.sources[file], self[file] = source, source.text
        return self.get(file)


def source_of(originals: Mapping[str, str], file: str) -> FileText:
    """What the file of one of these texts held; UTF-8 if only its text is known."""
    known = originals.sources.get(file) if isinstance(originals, Originals) else None
    return known or FileText(originals[file].encode(), "utf-8", originals[file])


def _lines_of(content: bytes) -> list[tuple[bytes, bytes]]:
    """Lines and their ends, as Python ends them."""
    lines = ((line, line.rstrip(b"\r\n")) for line in content.splitlines(keepends=True))
    return [(bare, line[len(bare) :]) for line, bare in lines]


@lru_cache(maxsize=64)
def line_map(before: str, after: str) -> dict[int, int]:
    """For each line of `after` that is in `before` too, its number there. Lines count from 1."""
    matcher = difflib.SequenceMatcher(None, bare_lines(before), bare_lines(after), autojunk=False)
    return {
        block.b + offset + 1: block.a + offset + 1
        for block in matcher.get_matching_blocks() for offset in range(block.size)
    }  # fmt: skip


def line_before(before: str, after: str, line: int) -> int | None:
    """The number in `before` of this line of `after`; None if the change made it."""
    return line if before == after else line_map(before, after).get(line)


def changed_lines(before: str, after: str) -> str:
    """The lines that a change takes away (`-`) and adds (`+`), wherever they stand."""
    lines = list(difflib.unified_diff(lines_of(before), lines_of(after), n=0))[2:]  # Without its head.
    return "".join(line for line in lines if not line.startswith("@@"))


def same_break(one: GraphBreak, other: GraphBreak, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether a break of a run with the texts `now` is one of a run with those `before`, by type, file and line, and by
    column if both have one.
    """
    a, b = one.location, other.location
    line = line_before(before[b.file], now[b.file], b.line) if b.file in now else b.line
    columns = {a.column, b.column}
    return (a.file, a.line, one.gb_type) == (b.file, line, other.gb_type) and (None in columns or len(columns) == 1)


def line_instead_of(before: str, after: str, line: int) -> int | None:
    """The line of `before` that this one replaced, if as many lines were added as removed."""
    matcher = difflib.SequenceMatcher(None, bare_lines(before), bare_lines(after), autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "replace" and new_first < line <= new_last and last - first == new_last - new_first:
            return first + line - new_first
    return None


def combined(base: str, one: str, other: str) -> str | None:
    """`one` with the changes of `other` to `base`; None if both change the same lines."""
    lines, before, after = lines_of(one), lines_of(base), lines_of(other)
    there = {old - 1: new - 1 for new, old in line_map(base, one).items()} | {-1: -1, len(before): len(lines)}
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, new_first, new_last in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        around = [there.get(number) for number in range(first - 1, last + 1)]
        begin = around[0]
        if begin is None or around != list(range(begin, begin + len(around))):
            return None
        lines[begin + 1 : begin + 1 + last - first] = after[new_first:new_last]
    return "".join(lines)


def unified(before: str, after: str, name: str) -> str:
    """The change as a unified diff of a file of this name; "" for none."""
    lines = difflib.unified_diff(lines_of(before), lines_of(after), _named(f"a/{name}"), _named(f"b/{name}"))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _named(name: str) -> str:
    """A file's name as git writes it into a diff: quoted if it could end the line, with a tab after a space."""
    quoted = {each for each in name if each in '"\\\x7f' or ord(each) < 32}
    if quoted:
        return '"' + "".join(f"\\{ord(each):03o}" if each in quoted else each for each in name) + '"'
    return f"{name}\t" if " " in name else name


def changed(originals: Mapping[str, str], texts: Mapping[str, str]) -> list[str]:
    """The files whose text differs."""
    return [file for file, text in texts.items() if text != originals[file]]


def is_library(file: str) -> bool:
    """Whether a file is of an installed package or of Python itself; these are never written."""
    return package_path(file) is not None or file.startswith(sysconfig.get_path("stdlib"))


def patch_of(originals: Mapping[str, str], texts: Mapping[str, str], root: Path) -> str:
    """All changes as one diff for `patch -p1` in `root`; files of libraries are named from their package folder."""
    return "".join(
        patch_of_file(originals, file, originals[file], texts[file], root) for file in changed(originals, texts)
    )


def patch_of_file(originals: Mapping[str, str], file: str, before: str, after: str, root: Path) -> str:
    """One change of a file as a diff, with the line ends of the file."""
    source, name = source_of(originals, file), name_of(file, root)
    try:
        return unified(source.exact(before), source.exact(after), name)
    except CannotWrite:
        return unified(before, after, name)


def patch_bytes(originals: Mapping[str, str], texts: Mapping[str, str], root: Path) -> bytes:
    """All changes as one diff whose lines have the bytes of their files."""
    made = b""
    for file in changed(originals, texts):
        old, new, hunks = patch_of_file(originals, file, originals[file], texts[file], root).split("\n", 2)
        head = f"{old}\n{new}\n".encode(errors="surrogateescape")
        made += head + source_of(originals, file).encoded(hunks)
    return made


def name_of(file: str, root: Path) -> str:
    """How a diff names a file."""
    if (below := package_path(file)) is not None:
        return below
    try:
        return str(Path(file).resolve().relative_to(root.resolve()))
    except ValueError:
        return file.lstrip("/")
