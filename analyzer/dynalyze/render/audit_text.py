"""What an audit adds to the terminal's summary: the verdict of the policy, the warm-up check, the attention matrix."""

from __future__ import annotations

from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from dynalyze.facts.audit import CellOutcome, cell_name, is_own, outcome
from dynalyze.render.console import Summary, one_line
from dynalyze.render.text import attention as words_attention
from dynalyze.render.text import policy as words_policy
from dynalyze.render.text import warmup as words_warmup
from dynalyze.report.audit import AttentionCell, AttentionMatrix, CheckStatus, PolicyVerdict, Warmup
from dynalyze.text.amounts import milliseconds

_CHECK_STYLES: dict[CheckStatus, str] = {"passed": "green", "failed": "bold red", "unknown": "yellow", "waived": "dim"}


def add_policy(summary: Summary, verdict: PolicyVerdict | None) -> None:
    """Add the verdict to a summary; nothing where the report was judged by no policy."""
    if verdict is None:
        return
    style = "bold green" if verdict.passed else "bold red"
    summary.beside(Text(f"{words_policy.outcome(verdict)} ", style=style), words_policy.headline(verdict))
    if verdict.advice:
        summary.action(verdict.advice)
    for check in words_policy.worst_first(verdict.checks):
        line = Text(one_line(f"{words_policy.title(check)}: {words_policy.found(check)}"))
        if check.fails and check.limit:
            line.append(f"; required: {one_line(check.limit)}", style="dim")
        summary.beside(Text(words_policy.MARKS[check.status], style=_CHECK_STYLES[check.status]), line, by=3)
    notes = [words_policy.source(verdict), *map(words_policy.waiver, verdict.waivers), words_policy.fixed(verdict)]
    for note in filter(None, notes):
        summary.indented(note, "dim")
    summary.line()


_MOST_ROWS = 12


def add_warmup(summary: Summary, warmup: Warmup | None) -> None:
    """Add the check to a summary, a row for each shape in the order of the warm-up; nothing where none was made."""
    if warmup is None:
        return
    summary.line(words_warmup.headline(warmup), style="bold")
    for sentence in words_warmup.sentences(warmup):
        summary.indented(sentence)
    for note in warmup.notes:
        summary.indented(note, "dim")
    if warmup.calls:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        table.add_column("shape", no_wrap=True)
        for head in ("first call", "again"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("its first call compiled", overflow="fold")
        for run in warmup.calls[:_MOST_ROWS]:
            shape = Text(one_line(words_warmup.shape_words(run.shape)), "cyan")
            took = "" if run.error else milliseconds(run.milliseconds)
            runs = f"; {words_warmup.runs(run)}" if run.in_eager else ""
            compiled = one_line(f"{words_warmup.compiled(run)}{runs}")
            style = "yellow" if run.error or run.in_eager else ""
            table.add_row(shape, took, words_warmup.later(run), Text(compiled, style))
        summary.table(table)
    summary.left_out(len(warmup.calls) - _MOST_ROWS, "shape", by=3)
    summary.line()


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
    summary.line(f"Attention and dtypes: {words_attention.conditions(matrix)}", style="bold")
    summary.line(words_attention.conclusion(matrix))
    if matrix.cells and matrix.dtypes:
        _table(summary, matrix)
    remarks = words_attention.remarks(matrix)
    for remark in remarks[:_MOST_REMARKS]:
        summary.indented(f"{remark.word}: {remark.names}. {remark.reason} {remark.place}".rstrip(), "dim")
    summary.left_out(len(remarks) - _MOST_REMARKS, by=3)
    for note in words_attention.notes(matrix)[:_MOST_REMARKS]:
        summary.indented(note, "dim")
    summary.line()


def _table(summary: Summary, matrix: AttentionMatrix) -> None:
    """A row for each attention and cache, or, where the terminal is too narrow, a sentence for each combination."""
    cells = {(cell.attention, cell.cache, cell.dtype): _lines(cell, matrix) for cell in matrix.cells}
    labels = {
        (cell.attention, cell.cache): one_line(f"{cell.attention}, {cell.cache}" if cell.cache else cell.attention)
        for cell in matrix.cells
    }
    widths = {dtype: max(_NARROWEST_COLUMN, cell_len(dtype)) for dtype in matrix.dtypes}
    for (_, _, dtype), lines in cells.items():
        if dtype in widths:
            widths[dtype] = max(widths[dtype], *(cell_len(said) for said, _ in lines))
    columns = [widths[dtype] + _GAP for dtype in matrix.dtypes]
    first = max(cell_len(label) for label in labels.values()) + _GAP
    if first + sum(columns) > summary.width:
        for cell in matrix.cells:
            facts = [words_attention.word(cell).lower(), *words_attention.facts(cell)]
            summary.indented(f"{cell_name(cell)}: {', '.join(facts)}", _CELL_STYLES.get(outcome(cell), ""))
        return
    heads = (set_cell_size(one_line(dtype), width) for dtype, width in zip(matrix.dtypes, columns, strict=True))
    summary.line(Text(" " * first + "".join(heads).rstrip(), style="dim"))
    for (attention, cache), label in labels.items():
        found = [cells.get((attention, cache, dtype), [("not reached", "dim")]) for dtype in matrix.dtypes]
        for number, row in enumerate(zip_longest(*found, fillvalue=("", ""))):
            text = Text(set_cell_size("" if number else label, first))
            for (said, style), width in zip(row, columns, strict=True):
                text.append(set_cell_size(said, width), style=style)
            text.rstrip()
            summary.line(text)
    summary.line(_LEGEND, style="dim")


def _lines(cell: AttentionCell, matrix: AttentionMatrix) -> list[tuple[str, str]]:
    """What stands in a cell, line by line, with its style: the word first."""
    word = words_attention.word(cell) + ("*" if is_own(cell, matrix) else "")
    style = _CELL_STYLES.get(outcome(cell), "")
    return [(word, style), *((fact, "dim") for fact in words_attention.facts(cell, short=True))]
