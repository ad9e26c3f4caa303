"""The words about an attention matrix that the page and the terminal share."""

from __future__ import annotations

from typing import NamedTuple, get_args

from dynalyze.facts.audit import RAN, CellOutcome, cell_name, fastest, outcome, right
from dynalyze.render.text import bench as words_bench
from dynalyze.render.text.report import CAUSE_WORDS, short_path
from dynalyze.report import Cause
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.text.amounts import count_of, listed, milliseconds

_WORDS: dict[CellOutcome, str] = {
    "right": "Runs, right", "untested": "Runs, not tested", "suspicious": "Suspicious", "breaks": "Breaks",
    "recompiles": "Recompiles", "compile_error": "Does not compile", "eager_error": "Fails in eager",
    "crash": "Crashed", "timeout": "Timed out", "not_here": "Not tried here",
}  # fmt: skip
_STOPPED = {"interrupted": "Interrupted", "out_of_time": "The time was up"}


class Remark(NamedTuple):
    """Why some combinations are as they are: those that share the reason and the place."""

    names: str
    word: str
    reason: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """`masking_utils.py:713`, short; empty where no line is known."""
        return f"{short_path(self.file)}:{self.line}" if self.file else ""


def word(cell: AttentionCell) -> str:
    """What became of it in a word or two: "Breaks"."""
    return _WORDS[outcome(cell)]


def facts(cell: AttentionCell, *, short: bool = False) -> list[str]:
    """What is known of it: "2 graph breaks", "same answers", "1.83x faster (1.79 to 1.88)", "2.1 ms".

    Its breaks and recompiles count only where it ran to its end. The speedup is against eager of the same combination;
    `short`, for a narrow column, tells that without its interval, and the answers as "answers: same".
    """
    known = ((cell.graph_breaks, "graph break"), (cell.recompiles, "recompile"))
    found = [count_of(number, what) for number, what in known if number and cell.status in RAN]
    if cell.accuracy:
        word = words_bench.verdict_short(cell.accuracy)
        found.append(f"answers: {word}" if short else words_bench.answers_title(cell.accuracy).lower())
    if cell.speedup is not None:
        speed = words_bench.ratio_words(cell.speedup)
        found.append(speed.partition(" (")[0] if short else speed)
    return found if cell.latency_ms is None else [*found, milliseconds(cell.latency_ms)]


def conclusion(matrix: AttentionMatrix) -> str:
    """What follows from the matrix, in one sentence. A fastest one is named only among those that were timed."""
    good = right(matrix)
    best = fastest(good)
    if len(best) == 1:
        time = milliseconds(best[0].latency_ms or 0.0)
        return f"{cell_name(best[0])} is the fastest combination without breaks and with right answers: {time}."
    if best:
        return (
            f"{listed(list(map(cell_name, best)))} are the fastest combinations without breaks and with right "
            "answers; no difference between them is shown."
        )
    if not matrix.cells:
        return "No combination was tried."
    tried = sum(cell.status != "not_here" for cell in matrix.cells)
    if not good:
        return "No combination that could be tried runs without breaks and gives right answers."
    return f"{len(good)} of {count_of(tried, 'combination')} ran without breaks and gave right answers."


def conditions(matrix: AttentionMatrix) -> str:
    """Of what, and how it was run: "LlamaForCausalLM, forward, cpu, backend inductor"."""
    phase = words_bench.workload_words(words_bench.WorkloadKey(matrix.phase, None, None))
    return ", ".join(part for part in (matrix.model, phase, matrix.device, f"backend {matrix.backend}") if part)


def remarks(matrix: AttentionMatrix) -> list[Remark]:
    """The reasons behind the words, once each, in the order of the cells."""
    groups: dict[tuple[str, str, str, int], list[AttentionCell]] = {}
    for cell in matrix.cells:
        cause = next((known for known in get_args(Cause) if known == cell.facts.get("cause")), None)
        reason = cell.reason or (words_bench.capital(CAUSE_WORDS[cause]) if cause else "")
        if reason or cell.file:
            groups.setdefault((word(cell), reason, cell.file, cell.line), []).append(cell)
    return [Remark(_grouped(cells), *key) for key, cells in groups.items()]


def notes(matrix: AttentionMatrix) -> list[str]:
    """What else was noted, once each, with the combinations that it is about."""
    found: dict[str, list[AttentionCell]] = {}
    for cell in matrix.cells:
        for note in cell.notes:
            found.setdefault(note, []).append(cell)
    left = [f"{_STOPPED[matrix.stopped]}: not every combination was tried."] if matrix.stopped else []
    return [*left, *matrix.notes, *(f"{_grouped(cells)}: {note}" for note, cells in found.items())]


def _grouped(cells: list[AttentionCell]) -> str:
    """`flash_attention_2 (float32, bfloat16), sdpa (float16, static cache)`."""
    by_attention: dict[str, list[str]] = {}
    for cell in cells:
        cache = f" with a {cell.cache} cache" if cell.cache else ""
        by_attention.setdefault(cell.attention, []).append(f"{cell.dtype}{cache}")
    return ", ".join(f"{attention} ({', '.join(which)})" for attention, which in by_attention.items())
