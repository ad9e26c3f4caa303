"""The attention matrix on the terminal: a table, and the reasons below it. Where it is too wide, sentences."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from dynalyze.facts.attention_matrix import CellOutcome, is_own, outcome
from dynalyze.render.console import Summary, one_line
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.words import attention as words

_GAP = 2
_NARROWEST_COLUMN = 12
_STYLES: dict[CellOutcome, str] = {
    "right": "green", "suspicious": "bold red", "breaks": "yellow", "recompiles": "yellow", "compile_error": "red",
    "crash": "red", "timeout": "red",
}  # fmt: skip
_MOST_REMARKS = 12
_LEGEND = "A combination ran in processes of its own. * is the target's own. Numbers are set against fp64."


def add(summary: Summary, matrix: AttentionMatrix | None) -> None:
    """Add the matrix to a summary; nothing where there is none."""
    if matrix is None:
        return
    summary.line(one_line(f"Attention and dtypes: {words.conditions(matrix)}"), style="bold")
    summary.line(one_line(words.conclusion(matrix)))
    rows = list(dict.fromkeys((cell.attention, cell.cache) for cell in matrix.cells))
    if rows and matrix.dtypes:
        _table(summary, matrix, rows)
    _remarks(summary, matrix)
    summary.line()


def _table(summary: Summary, matrix: AttentionMatrix, rows: Sequence[tuple[str, str]]) -> None:
    cells = {(cell.attention, cell.cache, cell.dtype): cell for cell in matrix.cells}
    columns = [_column(matrix, dtype) for dtype in matrix.dtypes]
    first = max(cell_len(one_line(_label(*row))) for row in rows) + _GAP
    if first + sum(columns) > summary.width:
        _sentences(summary, matrix)
        return
    summary.line(Text(" " * first + _cut(matrix.dtypes, columns), style="dim"))
    for attention, cache in rows:
        lines = [_lines(cells.get((attention, cache, dtype)), matrix) for dtype in matrix.dtypes]
        for number in range(max(len(each) for each in lines)):
            head = set_cell_size(one_line(_label(attention, cache)) if number == 0 else "", first)
            summary.line(_line(head, lines, columns, number))
    summary.line(_LEGEND, style="dim")


def _line(head: str, lines: list[list[tuple[str, str]]], columns: list[int], number: int) -> Text:
    """One line of a row: what each of its cells has on that line."""
    text = Text(head)
    for cell, width in zip(lines, columns, strict=True):
        said, style = cell[number] if number < len(cell) else ("", "")
        text.append(set_cell_size(said, width), style=style)
    text.rstrip()
    return text


def _column(matrix: AttentionMatrix, dtype: str) -> int:
    widths = [cell_len(said) for cell in matrix.cells if cell.dtype == dtype for said, _ in _lines(cell, matrix)]
    return max([_NARROWEST_COLUMN, cell_len(dtype), *widths]) + _GAP


def _lines(cell: AttentionCell | None, matrix: AttentionMatrix) -> list[tuple[str, str]]:
    """What stands in a cell, line by line, with its style: the word first."""
    if cell is None:
        return [("not reached", "dim")]
    own = "*" if is_own(cell, matrix) else ""
    facts = [*words.counts(cell), words.answers_word(cell), words.speed_short(cell), words.time(cell)]
    return [(words.word(cell) + own, _STYLES.get(outcome(cell), "")), *((fact, "dim") for fact in facts if fact)]


def _sentences(summary: Summary, matrix: AttentionMatrix) -> None:
    for cell in matrix.cells:
        facts = [*words.counts(cell), words.answers(cell), words.speed(cell), words.time(cell)]
        told = ", ".join([words.word(cell).lower(), *(fact for fact in facts if fact)])
        summary.indented(Text(one_line(f"{words.name(cell)}: {told}"), style=_STYLES.get(outcome(cell), "")))


def _remarks(summary: Summary, matrix: AttentionMatrix) -> None:
    found = words.remarks(matrix)
    for remark in found[:_MOST_REMARKS]:
        said = f"{remark.word}: {remark.names}. {remark.reason} {remark.place}".rstrip()
        summary.indented(Text(one_line(said), style="dim"))
    left = len(found) - _MOST_REMARKS
    if left > 0:
        summary.indented(Text(f"{left:,} more: see the page or --json.", style="dim"))
    for note in words.notes(matrix)[:_MOST_REMARKS]:
        summary.indented(Text(one_line(note), style="dim"))


def _label(attention: str, cache: str) -> str:
    return f"{attention}, {cache}" if cache else attention


def _cut(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(set_cell_size(one_line(text), width) for text, width in zip(texts, widths, strict=True)).rstrip()
