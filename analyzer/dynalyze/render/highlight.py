"""Python source as lines of highlighted HTML, with one line marked and a caret under the exact columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from markupsafe import Markup, escape
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType

from dynalyze.report import Location, Snippet
from dynalyze.text.escape import TAB, visible

MAX_LINE = 400
"""Characters of a source line that are shown; the part around the marked columns is kept."""

MAX_LINES = 60
"""Lines of one piece of code that are shown."""

_BEFORE_MARK = 120

# The first match wins, so a narrower token type stands before its parent.
_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (String, "s"),
    (Number, "m"),
    (Name.Decorator, "d"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Builtin, "b"),
)


class CodeLine(NamedTuple):
    """One line: `number` is None in code that is not of a file; `caret` is the text of the row below it."""

    number: int | None
    html: Markup
    marked: bool = False
    caret: str = ""


class Code(NamedTuple):
    lines: list[CodeLine]
    omitted: int = 0


class _Span(NamedTuple):
    """Columns of one line, `end` exclusive."""

    start: int
    end: int


def code_at(location: Location, snippet: Snippet | None) -> Code | None:
    """The code around a location, or its one line where no snippet was kept, or None."""
    if snippet is not None and snippet.lines:
        return _from_snippet(location, snippet)
    if not location.code:
        return None
    # `code` is stripped and `column` counts in the raw line: without its indentation no caret can be placed.
    ((html, _),) = highlighted_lines(location.code.splitlines()[:1], {})
    return Code([CodeLine(location.line, html, marked=True)])


def code_block(text: str) -> Code:
    """Code that is of no file, such as an example of a fix."""
    lines = text.expandtabs(len(TAB)).rstrip().split("\n")
    rows = highlighted_lines(lines[:MAX_LINES], {})
    return Code([CodeLine(None, html) for html, _ in rows], omitted=len(lines) - len(rows))


class Caret(NamedTuple):
    """The columns of a raw line that are to be marked; without an end, to the end of the line."""

    start: int
    end: int | None


def highlighted_lines(lines: list[str], carets: Mapping[int, Caret]) -> list[tuple[Markup, str]]:
    """Each line highlighted, and the row below it where a caret marks columns of it. Indentation stays."""
    fitted = [_fitted(line, _columns(line, carets.get(at))) for at, line in enumerate(lines)]
    rows: list[list[Markup]] = [[] for _ in lines]
    for row, column, kind, text in _tokens([text for text, _ in fitted]):
        rows[row] += _pieces(text, kind, column, fitted[row][1])
    return [(Markup("").join(row), _caret(*each)) for row, each in zip(rows, fitted, strict=True)]


def _columns(line: str, caret: Caret | None) -> _Span | None:
    if caret is None:
        return None
    # A span that goes on in a later line has its end there: mark to the end of this one.
    end = caret.end if caret.end is not None and caret.end > caret.start else len(line)
    return _Span(caret.start, min(end, len(line))) if 0 <= caret.start < min(end, len(line)) else None


def _from_snippet(location: Location, snippet: Snippet) -> Code:
    # Without blank lines at the two ends; the line of the location stays even where it is blank.
    numbered = list(enumerate(snippet.lines, start=snippet.first_line))
    full = [number for number, line in numbered if line.strip() or number == location.line]
    if full:
        snippet = Snippet(full[0], [line for number, line in numbered if full[0] <= number <= full[-1]])
    # The first line to show so that the marked one is among at most MAX_LINES.
    first = max(0, min(location.line - snippet.first_line - MAX_LINES // 2, len(snippet.lines) - MAX_LINES))
    raw = [line.rstrip("\r\n").replace("\n", " ") for line in snippet.lines[first : first + MAX_LINES]]
    marked = location.line - snippet.first_line - first
    lines = textwrap.dedent("\n".join(raw)).split("\n")
    indent = max((len(before) - len(line) for before, line in zip(raw, lines, strict=True) if line.strip()), default=0)
    carets = {}
    if location.column is not None:
        end = None if location.end_column is None else location.end_column - indent
        carets[marked] = Caret(location.column - indent, end)
    start = snippet.first_line + first
    rows = [
        CodeLine(start + index, html, index == marked, caret)
        for index, (html, caret) in enumerate(highlighted_lines(lines, carets))
    ]
    return Code(rows, omitted=len(snippet.lines) - len(raw))


def _fitted(line: str, span: _Span | None) -> tuple[str, _Span | None]:
    """The line made visible and cut to MAX_LINE, with the span moved along."""
    if len(line) > MAX_LINE:
        line, span = _cut(line, span)
    if span is None:
        return visible(line).replace("\n", " "), None
    start, end = (len(visible(line[:column])) for column in (span.start, span.end))
    return visible(line).replace("\n", " "), _Span(start, end)


def _cut(line: str, span: _Span | None) -> tuple[str, _Span | None]:
    first = max(0, min((span.start if span else 0) - _BEFORE_MARK, len(line) - MAX_LINE))
    last = first + MAX_LINE
    head = "… " if first else ""
    tail = f" … ({len(line) - last + first:,} characters omitted)"
    shift = len(head) - first
    moved = _Span(span.start + shift, min(span.end, last) + shift) if span else None
    return f"{head}{line[first:last]}{tail}", moved


def _caret(line: str, span: _Span | None) -> str:
    if span is None:
        return ""
    return " " * _cells(line[: span.start]) + "^" * max(1, _cells(line[span.start : span.end]))


def _cells(text: str) -> int:
    """How many columns of a monospaced font the text fills."""
    shown = (character for character in text if not unicodedata.combining(character))
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in shown)


def _tokens(lines: list[str]) -> Iterator[tuple[int, int, _TokenType, str]]:
    """The tokens of the lines as (row, column, type, text), none of them going over a line's end."""
    row = column = 0
    for kind, value in PythonLexer(stripnl=False, ensurenl=False).get_tokens("\n".join(lines)):
        for index, text in enumerate(value.split("\n")):
            if index:
                row, column = row + 1, 0
            if text:
                yield row, column, kind, text
            column += len(text)


def _pieces(text: str, kind: _TokenType, column: int, span: _Span | None) -> Iterator[Markup]:
    """A token, cut where the marked columns begin and end."""
    name = next((name for parent, name in _CLASSES if kind[: len(parent)] == parent), "")
    start = min(max((span.start if span else 0) - column, 0), len(text))
    end = min(max((span.end if span else 0) - column, start), len(text))
    for part, inside in ((text[:start], False), (text[start:end], True), (text[end:], False)):
        if part:
            html = Markup('<span class="{}">{}</span>').format(name, part) if name else escape(part)
            yield Markup("<mark>{}</mark>").format(html) if inside else html
