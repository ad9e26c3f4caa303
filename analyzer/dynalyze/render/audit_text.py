"""What an audit adds to the terminal's summary: the verdict of the policy, the warm-up check, the attention matrix."""

from __future__ import annotations

from rich.text import Text

from dynalyze.facts.audit import CellOutcome, is_own, outcome
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
        rows: list[list[Text | str]] = []
        for run in warmup.calls[:_MOST_ROWS]:
            shape = Text(one_line(words_warmup.shape_words(run.shape)), "cyan")
            took = "" if run.error else milliseconds(run.milliseconds)
            runs = f"; {words_warmup.runs(run)}" if run.in_eager else ""
            compiled = one_line(f"{words_warmup.compiled(run)}{runs}")
            style = "yellow" if run.error or run.in_eager else ""
            rows.append([shape, took, words_warmup.later(run), Text(compiled, style)])
        summary.rows(("shape", "first call", "again", "its first call compiled"), rows, right=(1, 2))
    summary.left_out(len(warmup.calls) - _MOST_ROWS, "shape", by=3)
    summary.line()


_CELL_STYLES: dict[CellOutcome, str] = {
    "right": "green", "suspicious": "bold red", "breaks": "yellow", "recompiles": "yellow", "compile_error": "red",
    "crash": "red", "timeout": "red",
}  # fmt: skip
_MOST_REMARKS = 12
_LEGEND = "Each combination ran in its own processes. * marks the target's own. Outputs are compared with fp64."


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
    cells = {(cell.attention, cell.cache, cell.dtype): _cell(cell, matrix) for cell in matrix.cells}
    missing = Text("not reached", "dim")
    rows: list[list[Text | str]] = [
        [", ".join(filter(None, key)), *(cells.get((*key, dtype), missing) for dtype in matrix.dtypes)]
        for key in dict.fromkeys((cell.attention, cell.cache) for cell in matrix.cells)
    ]
    summary.rows(["", *matrix.dtypes], rows, by=0)
    summary.line(_LEGEND, style="dim")


def _cell(cell: AttentionCell, matrix: AttentionMatrix) -> Text:
    said = Text(words_attention.word(cell) + ("*" if is_own(cell, matrix) else ""))
    said.stylize(_CELL_STYLES.get(outcome(cell), ""))
    for fact in words_attention.facts(cell, short=True):
        said.append(f"\n{fact}", "dim")
    return said
