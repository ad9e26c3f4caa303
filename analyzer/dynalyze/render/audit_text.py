"""What an audit adds to the terminal's summary: the verdict of the policy, the warm-up check, the attention matrix."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from dynalyze.facts.attention_matrix import CellOutcome, is_own, outcome
from dynalyze.render.console import Summary, one_line
from dynalyze.report.audit import AttentionCell, AttentionMatrix, CheckStatus, PolicyVerdict, ShapeRun, Warmup
from dynalyze.text.amounts import count_of, milliseconds
from dynalyze.words import attention as words_attention
from dynalyze.words import policy as words_policy
from dynalyze.words import warmup as words_warmup

_CHECK_STYLES: dict[CheckStatus, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow", "waived": "dim"}


def add_policy(summary: Summary, verdict: PolicyVerdict | None) -> None:
    """Add the verdict to a summary; nothing where the report was judged by no policy."""
    if verdict is None:
        return
    told = one_line(words_policy.headline(verdict))
    style = "bold green" if verdict.passed else "bold red"
    summary.beside(Text(f"{words_policy.outcome(verdict)} ", style=style), Text(told))
    if verdict.advice:
        summary.action(verdict.advice)
    for check in words_policy.worst_first(verdict.checks):
        line = Text(one_line(f"{words_policy.title(check)}: {words_policy.found(check)}"))
        if check.fails and check.limit:
            line.append(f"; asked for: {one_line(check.limit)}", style="dim")
        summary.beside(Text(words_policy.MARKS[check.status], style=_CHECK_STYLES[check.status]), line, by=3)
    notes = [words_policy.source(verdict), *map(words_policy.waiver, verdict.waivers), words_policy.fixed(verdict)]
    for note in filter(None, notes):
        summary.indented(Text(one_line(note), style="dim"))
    summary.line()


_MOST_ROWS = 12


def add_warmup(summary: Summary, warmup: Warmup | None) -> None:
    """Add the check to a summary; nothing where none was made."""
    if warmup is None:
        return
    summary.line(one_line(words_warmup.headline(warmup)), style="bold")
    for sentence in words_warmup.sentences(warmup):
        summary.indented(Text(one_line(sentence)))
    for note in warmup.notes:
        summary.indented(Text(one_line(note), style="dim"))
    if warmup.calls:
        summary.table(_shapes(warmup.calls[:_MOST_ROWS]))
    left = len(warmup.calls) - _MOST_ROWS
    if left > 0:
        summary.indented(Text(f"{count_of(left, 'more shape')}: see the page or --json.", style="dim"))
    summary.line()


def _shapes(runs: list[ShapeRun]) -> Table:
    """A row for each shape, in the order of the warm-up."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    table.add_column("shape", no_wrap=True)
    table.add_column("first call", justify="right", no_wrap=True)
    table.add_column("again", justify="right", no_wrap=True)
    table.add_column("its first call compiled", overflow="fold")
    for run in runs:
        first = "" if run.error else milliseconds(run.milliseconds)
        table.add_row(
            Text(one_line(words_warmup.shape_words(run.shape)), "cyan"), first, words_warmup.later(run), _compiled(run)
        )
    return table


def _compiled(run: ShapeRun) -> Text:
    told = words_warmup.compiled(run)
    told += f"; {words_warmup.runs(run)}" if run.in_eager else ""
    return Text(one_line(told), "yellow" if run.error or run.in_eager else "")


_GAP = 2
_NARROWEST_COLUMN = 12
_CELL_STYLES: dict[CellOutcome, str] = {
    "right": "green", "suspicious": "bold red", "breaks": "yellow", "recompiles": "yellow", "compile_error": "red",
    "crash": "red", "timeout": "red",
}  # fmt: skip
_MOST_REMARKS = 12
_LEGEND = "A combination ran in processes of its own. * is the target's own. Numbers are set against fp64."


def add_attention(summary: Summary, matrix: AttentionMatrix | None) -> None:
    """Add the matrix to a summary; nothing where there is none."""
    if matrix is None:
        return
    summary.line(one_line(f"Attention and dtypes: {words_attention.conditions(matrix)}"), style="bold")
    summary.line(one_line(words_attention.conclusion(matrix)))
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
    facts = [
        *words_attention.counts(cell),
        words_attention.answers_word(cell),
        words_attention.speed_short(cell),
        words_attention.time(cell),
    ]
    return [
        (words_attention.word(cell) + own, _CELL_STYLES.get(outcome(cell), "")),
        *((fact, "dim") for fact in facts if fact),
    ]


def _sentences(summary: Summary, matrix: AttentionMatrix) -> None:
    for cell in matrix.cells:
        facts = [
            *words_attention.counts(cell),
            words_attention.answers(cell),
            words_attention.speed(cell),
            words_attention.time(cell),
        ]
        told = ", ".join([words_attention.word(cell).lower(), *(fact for fact in facts if fact)])
        summary.indented(
            Text(one_line(f"{words_attention.name(cell)}: {told}"), style=_CELL_STYLES.get(outcome(cell), ""))
        )


def _remarks(summary: Summary, matrix: AttentionMatrix) -> None:
    found = words_attention.remarks(matrix)
    for remark in found[:_MOST_REMARKS]:
        said = f"{remark.word}: {remark.names}. {remark.reason} {remark.place}".rstrip()
        summary.indented(Text(one_line(said), style="dim"))
    left = len(found) - _MOST_REMARKS
    if left > 0:
        summary.indented(Text(f"{left:,} more: see the page or --json.", style="dim"))
    for note in words_attention.notes(matrix)[:_MOST_REMARKS]:
        summary.indented(Text(one_line(note), style="dim"))


def _label(attention: str, cache: str) -> str:
    return f"{attention}, {cache}" if cache else attention


def _cut(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(set_cell_size(one_line(text), width) for text, width in zip(texts, widths, strict=True)).rstrip()
