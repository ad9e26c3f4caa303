"""Source lines of the program under test, for locations and snippets."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dynalyze.capture.events import Frame, SourceSeen
from dynalyze.capture.overlay import CELL
from dynalyze.events.log import RunLog
from dynalyze.report import Location, Snippet


def condition_span(line: str) -> tuple[int, int] | None:
    """The characters of a line from which to which its condition goes; None where it has none, or not all of it."""
    code = line.lstrip()
    before = len(line) - len(code)
    if code.startswith("elif"):
        code, before = code[2:], before + 2
    for text in (code, f"{code}\n    pass"):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            (statement,) = ast.parse(text).body
            if isinstance(statement, ast.If | ast.While | ast.Assert) and statement.test.end_lineno == 1:
                ends = (statement.test.col_offset, statement.test.end_col_offset)
                begin, end = (before + len(code.encode()[:byte].decode()) for byte in ends)
                return begin, end
    return None


_CONTEXT_LINES = 3
LONGEST_LINE = 400
_LONGEST_DECORATION = 40
_LONGEST_FUNCTION = 2000
_LONGEST_EXPRESSION, _LONGEST_TEXT = 30, 5000  # lines, characters
_DEFINITION = re.compile(r"\s*(?:async\s+)?def\s")
# What a code object of its own can begin with: also a decorator whose `def` was not found.
_BEGINS = re.compile(r"\s*(?:@|(?:async\s+)?def\s|.*\blambda\b)")


class Sources:
    """Reads files once, as they were when the program imported them: from what `run` kept of them, or from the file
    where that has not changed since.

    With `readable=False` it opens nothing: for logs of other machines and `--no-source`. `changed` names the files that
    are not what they were, each with whether its text was kept. `texts` are those of files whose functions ran with
    other code than they have.
    """

    def __init__(
        self, run: RunLog | None = None, *, readable: bool = True, texts: Mapping[str, str] | None = None
    ) -> None:
        self._readable = readable
        self._run = run or RunLog()
        self._seen = seen_sources(self._run)
        self.changed: dict[str, bool] = {}
        self._files: dict[str, list[str]] = {file: _lines_of(text) for file, text in (texts or {}).items()}
        self._trees: dict[str, list[ast.stmt]] = {}

    def line(self, file: str, number: int) -> str | None:
        """A line as it stands in the file, without its end; None where it cannot be had."""
        lines = self._lines(file)
        return lines[number - 1] if 0 < number <= len(lines) else None

    def location(
        self, file: str, line: int, function: str = "", column: int | None = None, end_column: int | None = None
    ) -> Location:
        """A location from Python's own coordinates, whose columns are UTF-8 byte offsets."""
        text = self.line(file, line)
        start, end = _characters(text, column), _characters(text, end_column)
        if start is not None and end is not None:
            if end <= start or self._ends_below(file, line, start, end_column):
                end = None
            elif text is not None and _is_of_another_line(text, start, end):
                # Where the code of a line begins, if that was told, the end alone is of another line.
                begins = not text[:start].strip() and bool(text[start:].strip())
                start, end = condition_span(text) or (start if begins else None, None)
        code = text.strip()[:LONGEST_LINE] if text is not None else None
        return Location(file, max(line, 1), start, function, code, end)

    def whole(self, file: str, line: int, function: str = "") -> Location:
        """The location of a call or a `def`, with what goes on in the next lines in its code too, without comments."""
        place = self.location(file, line, function)
        for text in self._growing(file, place.line):
            code = f"{text.strip()} ..." if text.rstrip().endswith(":") else text.strip()
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                tree = ast.parse(code)
                if "\n" in code:
                    return msgspec.structs.replace(place, code=ast.unparse(tree).partition("\n")[0][:LONGEST_LINE])
                break
        return place

    def at(self, frame: Frame) -> Location:
        """Where a frame stands, with its columns."""
        return self.location(frame.file, frame.line, frame.name, frame.column, frame.end_column)

    def definition(self, file: str, line: int) -> int:
        """The line of the `def` of a function whose code begins at `line`, where its first decorator stands."""
        lines = self._lines(file)
        if not 0 < line <= len(lines) or not lines[line - 1].lstrip().startswith("@"):
            return line
        for number in range(line, min(line + _LONGEST_DECORATION, len(lines)) + 1):
            if _DEFINITION.match(lines[number - 1]):
                return number
        return line

    def last_line(self, file: str, line: int) -> int | None:
        """The last line of the function whose `def` stands at `line`; None where no function begins there."""
        lines = self._lines(file)
        if not 0 < line <= len(lines) or not _BEGINS.match(lines[line - 1]):
            return None
        try:
            block = inspect.getblock([f"{text}\n" for text in lines[line - 1 : line - 1 + _LONGEST_FUNCTION]])
        except (tokenize.TokenError, SyntaxError):
            return line
        return line - 1 + max(len(block), 1)

    def enclosing(self, file: str, line: int) -> int | None:
        """The line of the innermost `def` that holds a line."""
        lines = self._lines(file)
        if not 0 < line <= len(lines):
            return None
        for number in range(line, max(0, line - _LONGEST_FUNCTION), -1):
            if _DEFINITION.match(lines[number - 1]):
                last = self.last_line(file, number)
                if last is not None and last >= line:
                    return number
        return None

    def snippet(self, location: Location) -> Snippet | None:
        """The location's line with some lines around it."""
        lines = self._lines(location.file)
        if not 0 < location.line <= len(lines):
            return None
        first = max(1, location.line - _CONTEXT_LINES)
        return Snippet(first, [line[:LONGEST_LINE] for line in lines[first - 1 : location.line + _CONTEXT_LINES]])

    def expression(self, location: Location) -> str:
        """The source text that the columns of a location span; "" where they are not known.

        What goes on in the next lines is given on one.
        """
        text = self.line(location.file, location.line)
        if text is None or location.column is None:
            return ""
        if location.end_column is not None:
            return text[location.column : location.end_column].strip()
        node = self._begun(location.file, location.line, location.column)
        if node is None:
            return ""
        # The call with which the expression begins: what follows it in its last line is no part of it.
        begins = (each for each in ast.walk(node) if isinstance(each, ast.Call) and _start(each) == _start(node))
        return ast.unparse(next(begins, node))

    def block(self, location: Location) -> str:
        """The innermost statement at a location and those that follow it in its block, without comments; "" where the
        file cannot be read as Python.
        """
        holder = self.tree(location.file)
        found: list[ast.stmt] = []
        while following := _from(holder, location):
            found = following
            holder = _inner(found[0], location)
        text = ""
        for statement in found:
            written = ast.unparse(statement)
            if len(text) + len(written) > _LONGEST_TEXT:
                break
            text += f"{written}\n"
        return text

    def after(self, file: str, line: int) -> list[ast.stmt]:
        """The statements of a function behind a line of it, at whatever depth they stand, without nested functions."""
        found: list[ast.stmt] = []
        holder, place = self.tree(file), Location(file, line)
        while held := _from(holder, place):
            within = isinstance(held[0], ast.FunctionDef | ast.AsyncFunctionDef)
            found = [] if within else [*held[1:], *found]
            holder = _inner(held[0], place)
        return [each for each in found if not isinstance(each, ast.FunctionDef | ast.ClassDef)]

    def context(self, file: str, line: int) -> int:
        """The line of the innermost `with` that holds a line; the line itself where none does."""
        found, holder, place = line, self.tree(file), Location(file, line)
        while held := _from(holder, place):
            found = held[0].lineno if isinstance(held[0], ast.With | ast.AsyncWith) else found
            holder = _inner(held[0], place)
        return found

    def tree(self, file: str) -> list[ast.stmt]:
        """The statements of a file; none where it cannot be read as Python."""
        if file not in self._trees:
            self._trees[file] = []
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                self._trees[file] = ast.parse("\n".join(self._lines(file))).body
        return self._trees[file]

    def _ends_below(self, file: str, line: int, column: int, end: int | None) -> bool:
        """Whether `end`, in bytes, is a column of a later line: torch tells no line with it."""
        text = self.line(file, line) or ""
        rest = text[column:]
        is_open = sum(map(rest.count, "([{")) > sum(map(rest.count, ")]}"))
        if not is_open and not rest.rstrip().endswith("\\"):
            return False
        node = self._begun(file, line, column)
        if node is None:
            return not _is_whole(text, column, len(text.encode()[:end].decode(errors="ignore")))
        here = len(text[:column].encode())
        same = [each for each in ast.walk(node) if isinstance(each, ast.expr) and _start(each) == _start(node)]
        return not any(each.end_lineno == 1 and (each.end_col_offset or 0) + here == end for each in same)

    def _begun(self, file: str, line: int, column: int) -> ast.expr | None:
        """The expression that begins there and goes on in the next lines; None where its end cannot be told."""
        for text in self._growing(file, line, column):
            with contextlib.suppress(SyntaxError, ValueError, RecursionError):
                if "\n" in text:
                    return ast.parse(text, mode="eval").body
        return None

    def _growing(self, file: str, line: int, column: int = 0) -> Iterator[str]:
        """What begins there: the rest of its line, then with one more line each time."""
        lines = self._lines(file)[line - 1 : line - 1 + _LONGEST_EXPRESSION]
        for last in range(1, len(lines) + 1):
            if len(text := "\n".join(lines[:last])[column:]) > _LONGEST_TEXT:
                return
            yield text

    def _lines(self, file: str) -> list[str]:
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, file: str) -> list[str]:
        if not self._readable:
            return []
        seen, now = self._seen.get(file), _read(file)
        if seen is None:
            return now
        kept = _lines_of(self._run.read_text(seen.text)) if seen.text else []
        if kept and kept != now and CELL not in file:  # No file has the text of a cell.
            self.changed[file] = True
        elif not kept and changed(file, seen):
            self.changed[file] = False
            return []
        return kept or now


def seen_sources(run: RunLog) -> dict[str, SourceSeen]:
    """What the run told of each source file, the first to tell it."""
    found: dict[str, SourceSeen] = {}
    for _, event in run.all():
        if isinstance(event, SourceSeen):
            found.setdefault(event.file, event)
    return found


def changed(file: str, seen: SourceSeen) -> bool:
    """Whether a file is not what it was when it was imported, by its time and size."""
    try:
        status = Path(file).stat()
    except (OSError, ValueError):
        return seen.stamp is not None
    return seen.stamp is not None and seen.stamp != (status.st_mtime_ns, status.st_size)


def _from(block: list[ast.stmt], location: Location) -> list[ast.stmt]:
    """The statements of a block from the one that holds a location on; empty where none does."""
    held = [number for number, each in enumerate(block) if each.lineno <= location.line <= (each.end_lineno or 0)]
    if len(held) > 1 and location.column is not None:  # Several on one line.
        held = [number for number in held if block[number].col_offset <= location.column][-1:]
    return block[held[0] :] if held else []


def _inner(statement: ast.stmt, location: Location) -> list[ast.stmt]:
    """The block inside of a statement that holds a location; empty where its own first lines do."""
    line, column = location.line, location.column
    holders: list[ast.AST] = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
    blocks = (getattr(each, name, None) for each in holders for name in ("body", "orelse", "finalbody"))
    held = (each for each in blocks if isinstance(each, list) and each and isinstance(each[0], ast.stmt))
    found = next((each for each in held if each[0].lineno <= line <= (each[-1].end_lineno or 0)), [])
    if found and found[0].lineno == line == statement.lineno and not isinstance(statement, ast.FunctionDef):
        return found if column is not None and column >= found[0].col_offset else []  # `if x: y` on one line.
    return found


def _is_of_another_line(text: str, start: int, end: int) -> bool:
    """Whether columns cannot be this line's: after a break torch can tell those of the line before."""
    return end > len(text) or not text[:end].strip() or _splits_word(text, start) or _splits_word(text, end)


def _splits_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and text[at - 1 : at + 1].isidentifier()


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a line can be an expression: it ends within no word, and is code by itself."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        ast.parse(text[start:end].strip())
        return not _splits_word(text, end)
    return False


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _read(file: str) -> list[str]:
    path = Path(file)
    with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
        if path.is_absolute() and path.is_file():
            with tokenize.open(path) as source:
                return _lines_of(source.read())
    return []


def _lines_of(text: str) -> list[str]:
    # Python ends a line nowhere else; splitlines would, at a form feed.
    return text.removesuffix("\n").split("\n") if text else []


def _characters(text: str | None, offset: int | None) -> int | None:
    if offset is None or offset < 0:
        return None
    if text is None or text.isascii():
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


class LogSources(Sources):
    """The lines that a log quotes: no file is opened, for nothing says that it is the one that ran."""

    def __init__(self, quoted: Mapping[tuple[str, int], str]) -> None:
        super().__init__(readable=False)
        self._quoted = quoted

    def line(self, file: str, number: int) -> str | None:
        return self._quoted.get((file, number))
