"""The program's own lines, each with what became of it: what a source view shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.held import FilePath, Name, Source, Word

LineState = Literal["compiled", "broken", "eager", "silent"]
FunctionStatus = Literal["compiled", "broken", "eager", "failed", "inlined"]


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
