"""What an audit adds to the page: the verdict of the policy, the warm-up check, the attention matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dynalyze.facts.attention_matrix import CellOutcome, is_own, outcome
from dynalyze.render.view.links import Shown, shown
from dynalyze.report import Report
from dynalyze.report.audit import (
    AttentionCell,
    AttentionMatrix,
    Bucket,
    CheckStatus,
    PolicyCheck,
    PolicyVerdict,
    ShapeRun,
    Waiver,
    Warmup,
)
from dynalyze.text.visible import clipped
from dynalyze.words import attention as words_attention
from dynalyze.words import policy as words_policy
from dynalyze.words import warmup as words_warmup

MAX_WAIVERS = 100
MAX_EVIDENCE = 10
_MAX_FOUND = 4000
_MAX_TARGET = 120
_CHECK_TONES: dict[CheckStatus, str] = {"passed": "good", "failed": "bad", "unknown": "unknown", "waived": "warning"}


@dataclass(frozen=True)
class PolicyView:
    """`checks` are the worst first."""

    fact: PolicyVerdict
    headline: str
    rest: str
    checks: list[PolicyCheck]
    notes: list[str]
    waivers: Sequence[Waiver]
    amount: Shown


def policy_view(report: Report) -> PolicyView | None:
    """The verdict as it was given; None where there was no policy."""
    verdict = report.policy
    if verdict is None:
        return None
    waivers, amount = shown(verdict.waivers, MAX_WAIVERS)
    headline, rest = _sentences(report.target.spec, verdict)
    return PolicyView(
        fact=verdict,
        headline=headline,
        rest=rest,
        checks=words_policy.worst_first(verdict.checks),
        notes=[
            clipped(note, _MAX_FOUND) for note in (words_policy.source(verdict), words_policy.fixed(verdict)) if note
        ],
        waivers=waivers,
        amount=amount,
    )


def _sentences(target: str, verdict: PolicyVerdict) -> tuple[str, str]:
    """The sentence to quote, with the target and the first of what failed, and what there is to say beside it."""
    name, told = clipped(target, _MAX_TARGET), clipped(words_policy.details(verdict), _MAX_FOUND)
    if verdict.passed:
        return f"{name} passes its audit.", _sentence(told)
    first, _, rest = told.partition("; ")
    return f"{name} fails its audit{f': {first}' if first else ''}.", _sentence(rest)


def _sentence(told: str) -> str:
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def check_tone(check: PolicyCheck) -> str:
    """The look of a check."""
    return "bad" if check.fails else _CHECK_TONES[check.status]


MAX_SHAPES = 200
MAX_TEXT = 400


@dataclass(frozen=True)
class ShapeRow:
    """A shape with what its second call compiled, in words."""

    fact: ShapeRun
    after: str
    bad: bool


@dataclass(frozen=True)
class WarmupView:
    headline: str
    sentences: list[str]
    rows: list[ShapeRow]
    amount: Shown
    buckets: list[Bucket]
    notes: list[str]


def warmup_view(report: Report) -> WarmupView | None:
    """None where no shapes were tried."""
    warmup = report.warmup
    if warmup is None:
        return None
    some, amount = shown(warmup.calls, MAX_SHAPES)
    return WarmupView(
        headline=clipped(words_warmup.headline(warmup), MAX_TEXT),
        sentences=[clipped(each, MAX_TEXT) for each in words_warmup.sentences(warmup)],
        rows=[_shape(run, warmup) for run in some],
        amount=amount,
        buckets=warmup.buckets,
        notes=[clipped(note, MAX_TEXT) for note in warmup.notes],
    )


def _shape(run: ShapeRun, warmup: Warmup) -> ShapeRow:
    again = next((each for each in warmup.after_warmup if each.shape == run.shape), None)
    return ShapeRow(run, _after(run, again), bool(run.error or run.in_eager or again is not None))


def _after(run: ShapeRun, again: ShapeRun | None) -> str:
    if run.error:
        return "it failed"
    if again is not None:
        return words_warmup.compiled(again)
    return "nothing: it runs in eager" if run.in_eager else "nothing"


MAX_ROWS = 60
MAX_REMARKS = 60
_MAX_REASON = 600

Tone = Literal["good", "warning", "bad", "unknown"]
_CELL_TONES: dict[CellOutcome, tuple[Tone, str]] = {
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
class AttentionMatrixView:
    conclusion: str
    counted: str
    conditions: str
    dtypes: list[str]
    rows: list[RowView]
    rows_omitted: int
    remarks: list[words_attention.Remark]
    remarks_omitted: int
    notes: list[str]


def attention_matrix_view(report: Report) -> AttentionMatrixView | None:
    """The matrix of a report; None where none was made."""
    matrix = report.attention_matrix
    if matrix is None:
        return None
    rows, remarks = _rows(matrix), words_attention.remarks(matrix)
    return AttentionMatrixView(
        conclusion=words_attention.conclusion(matrix),
        counted=words_attention.counted(matrix),
        conditions=words_attention.conditions(matrix),
        dtypes=matrix.dtypes,
        rows=rows[:MAX_ROWS],
        rows_omitted=max(0, len(rows) - MAX_ROWS),
        remarks=remarks[:MAX_REMARKS],
        remarks_omitted=max(0, len(remarks) - MAX_REMARKS),
        notes=[clipped(note, _MAX_REASON) for note in words_attention.notes(matrix)[:MAX_REMARKS]],
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
    tone, mark = _CELL_TONES[outcome(cell)]
    facts = [
        *words_attention.counts(cell),
        words_attention.answers(cell),
        words_attention.speed(cell),
        words_attention.time(cell),
        _backends(cell),
    ]
    return CellView(tone, mark, words_attention.word(cell), [fact for fact in facts if fact], is_own(cell, matrix))


def _backends(cell: AttentionCell) -> str:
    return f"computed by {', '.join(cell.backends)}" if cell.backends else ""
