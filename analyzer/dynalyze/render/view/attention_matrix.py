"""The section of the attention matrix: a row for each attention and cache, a column for each dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynalyze.facts.attention_matrix import CellOutcome, is_own, outcome
from dynalyze.report import Report
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.text.visible import clipped
from dynalyze.words import attention as words

MAX_ROWS = 60
MAX_REMARKS = 60
_MAX_TEXT = 600

Tone = Literal["good", "warning", "bad", "unknown"]
_TONES: dict[CellOutcome, tuple[Tone, str]] = {
    "right": ("good", "✓"),
    "untested": ("unknown", "?"),
    "suspicious": ("bad", "✕"),
    "breaks": ("warning", "!"),
    "recompiles": ("warning", "!"),
    "compile_error": ("bad", "✕"),
    "eager_error": ("unknown", "–"),
    "crash": ("bad", "✕"),
    "timeout": ("bad", "✕"),
    "not_here": ("unknown", "·"),
}


@dataclass(frozen=True)
class CellView:
    """One cell: `word` says what became of it, `facts` are lines below. `own`: the target has it so by itself."""

    tone: Tone
    mark: str
    word: str
    facts: list[str]
    own: bool


@dataclass(frozen=True)
class RowView:
    """`cells` are in the order of the columns, None where a combination was not reached."""

    attention: str
    cache: str
    cells: list[CellView | None]


@dataclass(frozen=True)
class RemarkView:
    names: str
    word: str
    reason: str
    place: str
    full: str


@dataclass(frozen=True)
class AttentionMatrixView:
    conclusion: str
    counted: str
    conditions: str
    dtypes: list[str]
    rows: list[RowView]
    rows_omitted: int
    remarks: list[RemarkView]
    remarks_omitted: int
    notes: list[str]


def attention_matrix_view(report: Report) -> AttentionMatrixView | None:
    """The matrix of a report; None where none was made."""
    matrix = report.attention_matrix
    if matrix is None:
        return None
    rows, remarks = _rows(matrix), words.remarks(matrix)
    return AttentionMatrixView(
        conclusion=words.conclusion(matrix),
        counted=words.counted(matrix),
        conditions=words.conditions(matrix),
        dtypes=matrix.dtypes,
        rows=rows[:MAX_ROWS],
        rows_omitted=max(0, len(rows) - MAX_ROWS),
        remarks=[_remark(each) for each in remarks[:MAX_REMARKS]],
        remarks_omitted=max(0, len(remarks) - MAX_REMARKS),
        notes=[clipped(note, _MAX_TEXT) for note in words.notes(matrix)[:MAX_REMARKS]],
    )


def _rows(matrix: AttentionMatrix) -> list[RowView]:
    cells = {(cell.attention, cell.cache, cell.dtype): cell for cell in matrix.cells}
    keys = dict.fromkeys((cell.attention, cell.cache) for cell in matrix.cells)
    return [
        RowView(
            attention,
            f"{cache} cache" if cache else "",
            [_cell(cells.get((attention, cache, dtype)), matrix) for dtype in matrix.dtypes],
        )
        for attention, cache in keys
    ]


def _cell(cell: AttentionCell | None, matrix: AttentionMatrix) -> CellView | None:
    if cell is None:
        return None
    tone, mark = _TONES[outcome(cell)]
    facts = [*words.counts(cell), words.answers(cell), words.speed(cell), words.time(cell), _backends(cell)]
    return CellView(tone, mark, words.word(cell), [fact for fact in facts if fact], is_own(cell, matrix))


def _backends(cell: AttentionCell) -> str:
    return f"computed by {', '.join(cell.backends)}" if cell.backends else ""


def _remark(remark: words.Remark) -> RemarkView:
    return RemarkView(remark.names, remark.word, clipped(remark.reason, _MAX_TEXT), remark.place, remark.file)
