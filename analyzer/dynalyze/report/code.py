"""Places in code, and the program's own lines, each with its status: what a source view shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.sensitivity import FilePath, Name, Source, Word

LineKey = tuple[str, int]
"""A file and a line of it."""
LineState = Literal["compiled", "broken", "eager", "silent"]
FunctionStatus = Literal["compiled", "broken", "eager", "failed", "inlined"]


class Location(msgspec.Struct, frozen=True):
    """One line of code. `line` counts from 1; `column` and `end_column` are characters, counted from 0."""

    file: FilePath
    line: int
    column: int | None = None
    function: Name = ""
    code: Source | None = None
    end_column: int | None = None

    @property
    def at(self) -> LineKey:
        return self.file, self.line

    @property
    def short(self) -> str:
        """`model.py:12`, for a sentence."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


class Snippet(msgspec.Struct, frozen=True):
    """Lines of source around a location: `lines[0]` is line `first_line` of the file."""

    first_line: int
    lines: list[Source]


class TracedFunction(msgspec.Struct, frozen=True):
    name: Name
    line: int


class TracedFile(msgspec.Struct):
    """A source file that Dynamo inlined; `sha256` is of the file's bytes, "" where it could not be read."""

    path: FilePath
    sha256: Word
    functions: list[TracedFunction]
    origin: Literal["user", "library", "torch"] = "user"


class SourceLine(msgspec.Struct):
    """One line. `ops` are the operations that stand for it in graphs, each graph's counted once; `graphs` are these.

    `broken`: a graph break is here; `eager`: Python itself runs it; `silent`: it left no operation of its own, as a
    `return` or a computation on Python numbers does. `recompiles` are those that this line forced, or, at a `def`,
    those of the function.
    """

    line: int
    code: Source
    state: LineState = "silent"
    ops: int = 0
    graphs: list[Word] = []
    breaks: list[Word] = []
    recompiles: list[Word] = []


class SourceFunction(msgspec.Struct):
    """A function that the compiler came to, from its `def` to its last line. `inlined`: compiled within its callers."""

    name: Name
    line: int
    last: int
    status: FunctionStatus


class SourceFile(msgspec.Struct):
    """The functions of a file that the compiler came to, and their lines; `omitted` functions found no room."""

    path: FilePath
    origin: Literal["user", "library", "torch"]
    functions: list[SourceFunction] = []
    lines: list[SourceLine] = []
    omitted: int = 0
