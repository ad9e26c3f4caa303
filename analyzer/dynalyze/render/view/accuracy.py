"""The section of answers: how each configuration's results stand against fp64, the worst first."""

from __future__ import annotations

from dynalyze.facts.audit import reduced_to, search_of, wrong_answers, wrong_part
from dynalyze.render.text import bench as words
from dynalyze.render.view.links import Anchors, Listed, first
from dynalyze.report import Report
from dynalyze.report.audit import Bisection, stage_name
from dynalyze.report.measurements import Accuracy, AccuracyVerdict, TensorAccuracy
from dynalyze.text.amounts import count_of, percent
from dynalyze.text.escape import clipped

MAX_ROWS = 100
MAX_TENSORS = 50
_MAX_TEXT = 2000

_VERDICTS: dict[AccuracyVerdict, tuple[str, str, str]] = {
    "suspicious": (
        "bad", "✕",
        "Farther from fp64 than eager by more than rounding, or another dtype or shape, or NaN; or something other "
        "than numbers differs, such as strides or an exception."
    ),
    "not comparable": ("unknown", "?", "Nothing can be said about these answers."),
    "rounding only": (
        "warning", "≈",
        "Farther from fp64 than eager, because fused kernels round at other places: eager gets as far once its weights "
        "are rounded otherwise, or rounding where eager rounds (`emulate_precision_casts`) removes the difference.",
    ),
    "benign": ("good", "✓", "Different from eager, but about as close to the exact result (fp64)."),
    "equal": ("good", "✓", "Same answers, within the usual tolerance."),
}  # fmt: skip
"""The look of a verdict, its mark and what it means; the worst first."""

_WORST = list(_VERDICTS)


def accuracy_view(report: Report, anchors: Anchors) -> Listed[AccuracyRow]:
    ordered = sorted(report.accuracy, key=lambda item: _WORST.index(item.verdict))
    return first(ordered, MAX_ROWS).map(lambda item: AccuracyRow(item, report, anchors))


class AccuracyRow:
    """A test of accuracy: its verdict in words, its worst tensors, and where wrong numbers come from."""

    def __init__(self, item: Accuracy, report: Report, anchors: Anchors) -> None:
        self.name = words.workload_name(item)
        self.anchor = anchors.claim(f"answers-{self.name}")
        self.tone, self.mark, meaning = _VERDICTS[item.verdict]
        self.meaning = f"{meaning} {_found(item, report)}" if item.verdict == "suspicious" else meaning
        self.verdict = words.answers_title(item.verdict)
        self.notes = _notes(item)
        self.variants = item.variants
        self.contracts = first(item.contracts, MAX_TENSORS)
        self.tensors = first(sorted(item.tensors, key=_badness), MAX_TENSORS)
        self.unlisted = count_of(item.tensors_omitted, "more tensor") if item.tensors_omitted else ""
        ran = item.configuration, item.phase
        self.searched = [SearchView(each) for each in report.bisections if (each.configuration, each.phase) == ran]


class SearchView:
    """Where wrong numbers come from: what was found as names and values, and the stages that were tried."""

    def __init__(self, found: Bisection) -> None:
        known = {
            "Stage": stage_name(found),
            "Part of it": wrong_part(found),
            "Module": f"{found.module} ({found.module_class})" if found.module else found.module_class,
            "Operation": f"the gradient of {found.op}" if found.op and found.gradient else found.op,
            "Line": f"{found.file}:{found.line}" if found.file and found.line and not found.asks else "",
            "Asks whether it is compiled": "; ".join(f"{at.file}:{at.line} {at.code}".strip() for at in found.asks),
            "What is wrong": found.why,
            "Setting that makes it right": found.workaround,
            "Script that shows it": f"python {found.repro}" if found.repro else "",
            "Reduced": reduced_to(found),
        }
        asked = "is an operation in it wrong?" if found.hidden else "are the answers wrong?"
        self.title = "A wrong operation that the answers hide" if found.hidden else "Where it comes from"
        self.facts = [(name, clipped(value, _MAX_TEXT)) for name, value in known.items() if value]
        self.stages = found.stages
        self.caption = f"Compiled as far as this stage: {asked}"
        self.note = clipped(found.reason, _MAX_TEXT)


def _found(item: Accuracy, report: Report) -> str:
    found = search_of(item, report.bisections)
    if found is None:
        return "Its source was not searched for; `dynalyze audit` names the stage and the operation."
    if found.stage:
        return f"The search found: {clipped(wrong_answers(item, found), _MAX_TEXT)}."
    return "A search did not find where it comes from."


def _badness(tensor: TensorAccuracy) -> tuple[int, float]:
    """Worst first: by verdict, then by how much farther from fp64 than eager."""
    return _WORST.index(tensor.verdict), -(tensor.compiled_rmse or 0.0) / (tensor.eager_rmse or 1e-30)


def _notes(item: Accuracy) -> list[str]:
    notes = [f"{words.capital(clipped(item.reason, _MAX_TEXT)).rstrip('.')}."] if item.reason else []
    if item.tensors and not item.anchored and item.verdict != "not comparable":
        notes.append("There is no fp64 run to compare with: direction and length were compared with those of eager.")
    if item.deterministic is False and not item.reason:
        notes.append("Eager did not give the same twice.")
    if item.draws:
        notes.append(
            "The model draws random numbers. Inductor draws others than eager for the same seed, by design; it was "
            "compared with `torch._inductor.config.fallback_random = True`, which draws eager's."
        )
    if item.argmax_flips is not None:
        rows = "no row" if item.argmax_flips == 0 else f"{percent(item.argmax_flips)} of the rows"
        notes.append(f"The largest logit is another one in {rows}.")
    return notes


def dtype_words(item: TensorAccuracy) -> str:
    """The dtype of eager, and of compiled where that is another one."""
    differs = item.compiled_dtype and item.compiled_dtype != item.dtype
    return f"{item.dtype} (compiled {item.compiled_dtype})" if differs else item.dtype


def answer_tone(verdict: AccuracyVerdict) -> str:
    return _VERDICTS[verdict][0]
