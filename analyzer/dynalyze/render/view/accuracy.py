"""The section of answers: how each configuration's results stand against fp64, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.facts.wrong_numbers import search_of, wrong_answers
from dynalyze.render.view.links import Anchors, Shown, shown
from dynalyze.report import Report
from dynalyze.report.audit import Bisection, StageRun, stage_name
from dynalyze.report.measurements import Accuracy, AccuracyVerdict, TensorAccuracy
from dynalyze.text.amounts import count_of, percent
from dynalyze.text.visible import clipped
from dynalyze.words import bench as words

MAX_ROWS = 100
MAX_TENSORS = 50
_MAX_TEXT = 2000

_WORST: tuple[AccuracyVerdict, ...] = ("suspicious", "not comparable", "rounding only", "benign", "equal")
_MEANINGS: dict[AccuracyVerdict, str] = {
    "equal": "Same answers, within the usual tolerance.",
    "benign": "Not the same as eager, but about as near to the exact result (fp64) as eager is.",
    "rounding only": (
        "Farther from fp64 than eager, because fused kernels round elsewhere. Rounding where eager rounds "
        "(`emulate_precision_casts`) takes the difference away."
    ),
    "suspicious": "Farther from fp64 than eager and not by rounding, or of another dtype or shape, or with NaN.",
    "not comparable": "Nothing can be said about these answers.",
}


@dataclass(frozen=True)
class Searched:
    """Where wrong numbers come from: what was found as names and values, and the stages that were tried."""

    title: str
    facts: list[tuple[str, str]]
    rungs: list[StageRun]
    caption: str
    note: str


@dataclass(frozen=True)
class AccuracyRow:
    anchor: str
    name: str
    tone: str
    mark: str
    verdict: str
    meaning: str
    notes: list[str]
    tensors: Sequence[TensorAccuracy]
    amount: Shown
    unlisted: str
    searched: list[Searched]


@dataclass(frozen=True)
class AccuracyView:
    items: list[AccuracyRow]
    amount: Shown


TONES: dict[AccuracyVerdict, tuple[str, str]] = {
    "equal": ("good", "✓"),
    "benign": ("good", "✓"),
    "rounding only": ("warning", "≈"),
    "suspicious": ("bad", "✕"),
    "not comparable": ("unknown", "?"),
}


def accuracy_view(report: Report, anchors: Anchors) -> AccuracyView:
    """The tests of a report, worst first."""
    items, amount = shown(sorted(report.accuracy, key=lambda item: _WORST.index(item.verdict)), MAX_ROWS)
    return AccuracyView([_row(item, report, anchors) for item in items], amount)


def _row(item: Accuracy, report: Report, anchors: Anchors) -> AccuracyRow:
    tone, mark = TONES[item.verdict]
    tensors, amount = shown(sorted(item.tensors, key=_badness), MAX_TENSORS)
    return AccuracyRow(
        anchor=anchors.claim(f"answers-{words.workload_name(item)}"),
        name=words.workload_name(item),
        tone=tone,
        mark=mark,
        verdict=words.answers_title(item.verdict),
        meaning=_meaning(item, report),
        notes=_notes(item),
        tensors=tensors,
        amount=amount,
        unlisted=count_of(item.tensors_omitted, "more tensor") if item.tensors_omitted else "",
        searched=_searched(item, report),
    )


def _meaning(item: Accuracy, report: Report) -> str:
    """What the verdict says and, of suspicious answers, what a search after their place has found."""
    if item.verdict != "suspicious":
        return _MEANINGS[item.verdict]
    found = search_of(item, report.bisections)
    if found is None:
        told = (
            "Where it comes from was not searched for; `dynalyze audit` names the stage, the module and the operation."
        )
    elif found.stage:
        told = f"The search found: {clipped(wrong_answers(item, found), _MAX_TEXT)}."
    else:
        told = "A search did not find where it comes from."
    return f"{_MEANINGS[item.verdict]} {told}"


def _searched(item: Accuracy, report: Report) -> list[Searched]:
    key = item.configuration, item.phase
    return [_search(each) for each in report.bisections if (each.configuration, each.phase) == key]


def _search(found: Bisection) -> Searched:
    known = {
        "Stage": stage_name(found),
        "Module": f"{found.module} ({found.module_class})" if found.module else found.module_class,
        "Operation": f"the gradient of {found.op}" if found.op and found.gradient else found.op,
        "Line": f"{found.file}:{found.line}" if found.file and found.line else "",
        "What is wrong": found.why,
        "Script that shows it": f"python {found.repro}" if found.repro else "",
    }
    facts = [(name, clipped(value, _MAX_TEXT)) for name, value in known.items() if value]
    asked = "is an operation in it wrong?" if found.hidden else "are the answers wrong?"
    title = "A wrong operation that the answers hide" if found.hidden else "Where it comes from"
    return Searched(
        title, facts, found.stages, f"Compiled as far as this stage: {asked}", clipped(found.reason, _MAX_TEXT)
    )


def _badness(tensor: TensorAccuracy) -> tuple[int, float]:
    """Worst first: by verdict, then by how much farther from fp64 than eager."""
    return _WORST.index(tensor.verdict), -(tensor.compiled_rmse or 0.0) / (tensor.eager_rmse or 1e-30)


def _notes(item: Accuracy) -> list[str]:
    told = [f"{words.capital(clipped(item.reason, _MAX_TEXT)).rstrip('.')}."] if item.reason else []
    if not item.anchored and item.verdict != "not comparable":
        told.append("There is no fp64 run to compare with: direction and length were compared with those of eager.")
    if item.deterministic is False and not item.reason:
        told.append("Eager did not give the same twice.")
    if item.argmax_flips is not None:
        rows = "no row" if item.argmax_flips == 0 else f"{percent(item.argmax_flips)} of the rows"
        told.append(f"The largest logit is another one in {rows}.")
    return told


def dtype_words(item: TensorAccuracy) -> str:
    """The dtype of eager, and of compiled where that is another one."""
    differs = item.compiled_dtype and item.compiled_dtype != item.dtype
    return f"{item.dtype} (compiled {item.compiled_dtype})" if differs else item.dtype
