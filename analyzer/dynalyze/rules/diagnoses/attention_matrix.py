"""Combinations of attention, dtype and cache that the matrix found to break, to fail, or to give suspicious numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.facts.attention_matrix import CellOutcome, instead_of, is_own, outcome, right
from dynalyze.report import Location, Report, Severity, Target
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import listed

_MOST_NAMED = 3
# What torch.compile did to a combination; what fails in eager, or cannot be tried here, is none of its doing.
_TOLD: dict[CellOutcome, str] = {
    "suspicious": "gives numbers that are wrong beyond rounding once it is compiled",
    "compile_error": "does not compile",
    "crash": "crashes when it is compiled",
    "timeout": "ran out of time",
    "breaks": "breaks the graph",
}


@Rule(
    title="An attention implementation does not go together with compiling",
    description="`dynalyze audit --attention-matrix` tried every attention implementation with every dtype, and both "
    "caches where the phase has one. This combination breaks the graph, does not compile, or gives numbers that are "
    "farther from fp64 than rounding explains. A warning is about the combination that the model has by itself; what "
    "fails without torch.compile, or cannot be tried on this device, is told in the matrix alone.",
)
def attention_matrix(report: Report) -> Iterator[Ranked]:
    matrix = report.attention_matrix
    if matrix is None:
        return
    good = right(matrix)
    others: dict[tuple[str, CellOutcome], list[AttentionCell]] = {}
    for cell in matrix.cells:
        found = outcome(cell)
        if found not in _TOLD:
            continue
        if is_own(cell, matrix):
            title = f"{_name(cell)}, as the model has it, {_TOLD[found]}"
            yield _finding(120, "warning", title, [cell], _step(cell, instead_of(cell, good), report.target, matrix))
        else:
            others.setdefault((cell.attention, found), []).append(cell)
    for (attention, found), cells in others.items():
        which = listed([f"{cell.dtype}{_cache(cell)}" for cell in cells], _MOST_NAMED)
        other = instead_of(cells[0], good)
        kept = f"Keep to {_name(other)}: it runs without breaks and is right." if other is not None else ""
        step = kept or _look(cells[0], report.target)
        yield _finding(600, "info", f"{attention} with {which} {_TOLD[found]}", cells, step)


def _finding(rank: int, severity: Severity, title: str, cells: list[AttentionCell], step: str) -> Ranked:
    first = cells[0]
    reason = first.reason if not first.reason or first.reason.endswith((".", "…")) else f"{first.reason}."
    return attention_matrix.finding(
        title,
        step,
        why=f"{reason} Read from a run of each combination on this device.".lstrip(),
        rank=rank,
        severity=severity,
        location=Location(first.file, first.line) if first.file else None,
        evidence=[cell.id for cell in cells],
    )


def _step(cell: AttentionCell, other: AttentionCell | None, target: Target, matrix: AttentionMatrix) -> str:
    """The setting of the user's own that leads to a combination which works."""
    if other is None:
        return _look(cell, target)
    changes = []
    if other.attention != cell.attention:
        changes.append(f'`attn_implementation="{other.attention}"`')
    if other.dtype != cell.dtype:
        changes.append(f"`dtype=torch.{other.dtype}`")
    if other.cache != cell.cache:
        changes.append(f"a {other.cache} cache")
    model = matrix.model or "the model"
    return f"Load {model} with {' and '.join(changes)}: {_name(other)} runs without breaks and is right."


def _look(cell: AttentionCell, target: Target) -> str:
    attention = f" --attn-implementation {cell.attention}" if target.kind == "transformers" else ""
    command = f"dynalyze explain {target.spec}{attention} --dtype {cell.dtype}"
    return f"No combination that could be tried works; look at this one alone: `{command}`."


def _name(cell: AttentionCell) -> str:
    return f"{cell.attention} with {cell.dtype}{_cache(cell)}"


def _cache(cell: AttentionCell) -> str:
    return f" and a {cell.cache} cache" if cell.cache else ""
