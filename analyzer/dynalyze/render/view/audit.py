"""What an audit adds to the page: the verdict of the policy, the warm-up check, the attention matrix."""

from __future__ import annotations

from typing import Literal

from dynalyze.facts.audit import CellOutcome, is_own, outcome
from dynalyze.render.text import attention as words_attention
from dynalyze.render.text import policy as words_policy
from dynalyze.render.text import warmup as words_warmup
from dynalyze.render.text.bench import capital
from dynalyze.render.view.links import first
from dynalyze.report.audit import (
    AttentionCell,
    AttentionMatrix,
    CheckStatus,
    PolicyCheck,
    PolicyVerdict,
    ShapeRun,
    Warmup,
)
from dynalyze.text.escape import clipped

MAX_WAIVERS = 100
MAX_SHAPES = 200
MAX_TEXT = 400
MAX_ROWS = 60
MAX_REMARKS = 60
_MAX_FOUND = 4000
_MAX_TARGET = 120
_MAX_REASON = 600

Tone = Literal["good", "warning", "bad", "unknown"]
_CHECK_TONES: dict[CheckStatus, Tone] = {"passed": "good", "failed": "bad", "unknown": "unknown", "waived": "warning"}
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


class PolicyView:
    """The verdict as it was given: the sentence to quote, with the target and the first of what failed, and the rest.

    `checks` are the worst first.
    """

    def __init__(self, target: str, verdict: PolicyVerdict) -> None:
        name, details = clipped(target, _MAX_TARGET), clipped(words_policy.details(verdict), _MAX_FOUND)
        reason, _, rest = ("", "", details) if verdict.passed else details.partition("; ")
        notes = (words_policy.source(verdict), words_policy.fixed(verdict))
        self.fact = verdict
        self.headline = f"{name} {'passes' if verdict.passed else 'fails'} its audit{f': {reason}' if reason else ''}."
        self.rest = f"{capital(rest)}." if rest else ""
        self.checks = words_policy.worst_first(verdict.checks)
        self.notes = [clipped(note, _MAX_FOUND) for note in notes if note]
        self.waivers = first(verdict.waivers, MAX_WAIVERS)


def check_tone(check: PolicyCheck) -> Tone:
    return "bad" if check.fails else _CHECK_TONES[check.status]


class WarmupView:
    """The warm-up check. `shapes` are calls, each with what its second call compiled and whether that is bad."""

    def __init__(self, warmup: Warmup) -> None:
        self.headline = clipped(words_warmup.headline(warmup), MAX_TEXT)
        self.sentences = [clipped(each, MAX_TEXT) for each in words_warmup.sentences(warmup)]
        self.shapes = first(warmup.calls, MAX_SHAPES).map(lambda run: (run, *_after(run, warmup)))
        self.buckets = warmup.buckets
        self.notes = [clipped(note, MAX_TEXT) for note in warmup.notes]


def _after(run: ShapeRun, warmup: Warmup) -> tuple[str, bool]:
    again = next((each for each in warmup.after_warmup if each.shape == run.shape), None)
    if run.error:
        return "it failed", True
    if again is not None:
        return words_warmup.compiled(again), True
    return ("nothing: it runs in eager", True) if run.in_eager else ("nothing", False)


class CellView:
    """One cell: `word` says what became of it, `facts` are lines below. `own`: the target has it so by itself."""

    def __init__(self, cell: AttentionCell, matrix: AttentionMatrix) -> None:
        self.tone, self.mark = _CELL_TONES[outcome(cell)]
        self.word = words_attention.word(cell)
        self.facts = words_attention.facts(cell)
        self.facts += [f"computed by {', '.join(cell.backends)}"] if cell.backends else []
        self.own = is_own(cell, matrix)


class AttentionMatrixView:
    """`rows` are attention, cache, and cells in the order of the columns, None where a combination was not reached."""

    def __init__(self, matrix: AttentionMatrix) -> None:
        cells = {(cell.attention, cell.cache, cell.dtype): CellView(cell, matrix) for cell in matrix.cells}
        keys = dict.fromkeys((cell.attention, cell.cache) for cell in matrix.cells)
        rows = [
            (key[0], f"{key[1]} cache" if key[1] else "", [cells.get((*key, each)) for each in matrix.dtypes])
            for key in keys
        ]
        notes = words_attention.notes(matrix)[:MAX_REMARKS]
        self.conclusion = words_attention.conclusion(matrix)
        self.conditions = words_attention.conditions(matrix)
        self.dtypes = matrix.dtypes
        self.rows = first(rows, MAX_ROWS)
        self.remarks = first(words_attention.remarks(matrix), MAX_REMARKS)
        self.notes = [clipped(note, _MAX_REASON) for note in notes]
