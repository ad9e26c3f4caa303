"""One cell of the attention matrix: from what was seen of a combination to its record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from dynalyze.bench.workers import WorkerFailed
from dynalyze.facts.attention.choice import RAN
from dynalyze.fleet.rows import Verdict
from dynalyze.report import GraphBreak, Report
from dynalyze.report.audit import AttentionCell, CellStatus
from dynalyze.report.measurements import Measurement
from dynalyze.text.errors import UsageError

_LONGEST = 300
# Their reasons are words of an exception, which may quote the program.
_RAISED = ("eager_error", "create_error", "compile_error")

# What libraries say where the device, not the combination, is the reason.
_OF_DEVICE = re.compile(
    r"not implemented for '"
    r"|Could not run '[^']+' with arguments from the '\w+' backend"
    r"|only supports? \S+ GPUs? or newer"
    r"|no kernel image is available"
    r"|does not support \w+ on CPU"
    r"|No CUDA GPUs are available|Torch not compiled with CUDA enabled"
)


@dataclass(frozen=True)
class Combination:
    """What is tried in one cell; without a cache where the phase has none."""

    attention: str
    dtype: str
    cache: str = ""

    @property
    def name(self) -> str:
        """For people: "sdpa, bfloat16, static cache"."""
        return ", ".join([self.attention, self.dtype, *([f"{self.cache} cache"] if self.cache else [])])


@dataclass(frozen=True)
class Recorded:
    """A recorded run, and what became of it."""

    report: Report
    verdict: Verdict


class Trials(Protocol):
    """What can be done with a combination, each in processes of its own. All may raise Stopped.

    `timed`: whether speeds are asked for.
    """

    @property
    def timed(self) -> bool: ...

    def recorded(self, combination: Combination) -> Recorded:
        """Run it once, recorded; raises UsageError where it cannot even be begun."""

    def accuracy(self, combination: Combination) -> dict[str, Any]:
        """The fields of `measurements.Accuracy`; raises WorkerFailed."""

    def speed(self, combination: Combination) -> Measurement | None:
        """Compiled against eager; None where it left nothing."""


def recorded_cell(name: str, combination: Combination, trials: Trials) -> AttentionCell:
    """The cell as the recorded run has it: what it became, and where."""
    cell = AttentionCell(combination.attention, combination.dtype, combination.cache, id=name)
    try:
        seen = trials.recorded(combination)
    except UsageError as error:
        return not_here(name, combination, str(error))
    report, verdict = seen.report, seen.verdict
    cell.graph_breaks, cell.recompiles = len(report.graph_breaks), len(report.recompiles)
    cell.graphs = len(report.graphs)
    cell.backends = list(dict.fromkeys(call.backend for call in report.attention if call.backend))
    cell.status = _status(report, verdict)
    if cell.status == "breaks" and report.graph_breaks:
        _tell_break(cell, report.graph_breaks[0])
    elif cell.status == "recompiles":
        first = report.recompiles[0]
        cell.file, cell.line, cell.facts["cause"] = first.location.file, first.location.line, first.cause
    elif cell.status != "runs":
        cell.reason, cell.file, cell.line = _one_line(_without_stage(verdict.error)), verdict.file, verdict.line
        if verdict.status in _RAISED:
            cell.facts["raised"] = True
    return cell


def add_accuracy(cell: AttentionCell, combination: Combination, trials: Trials) -> None:
    """Whether its numbers are right; of a cell that did not run nothing can be said."""
    if cell.status not in RAN:
        return
    try:
        answer = trials.accuracy(combination)
    except WorkerFailed as error:
        cell.notes.append(f"The accuracy is not known: {_one_line(error.message)}")
        return
    cell.accuracy = answer.get("verdict")
    if answer.get("reason") and cell.accuracy in ("suspicious", "not comparable"):
        cell.notes.append(f"Accuracy: {_one_line(answer['reason'])}")
    for fact, field in (("output_dtype", "dtype"), ("compiled_output_dtype", "compiled_dtype")):
        outputs = [each for each in answer.get("tensors") or [] if each.get("kind") == "output"]
        found = sorted({str(each[field]) for each in outputs if each.get(field)})
        if found:
            cell.facts[fact] = ", ".join(found)


def add_speed(cell: AttentionCell, combination: Combination, trials: Trials) -> None:
    """How fast a combination that ran is. Times stand in the cell only where they are valid."""
    try:
        measured = trials.speed(combination)
    except UsageError as error:
        cell.notes.append(f"The speed is not known: {_one_line(str(error))}")
        return
    if measured is None:
        return
    if measured.status != "valid":
        cell.notes.append(f"The speed is not known: {_one_line(measured.reason)}")
        return
    cell.speedup = measured.speedup
    cell.latency_ms = measured.latency_ms.p50 if measured.latency_ms else None
    cell.eager_latency_ms = measured.eager_latency_ms.p50 if measured.eager_latency_ms else None


def not_here(name: str, combination: Combination, reason: str) -> AttentionCell:
    """A combination that nothing was run for."""
    return AttentionCell(
        combination.attention, combination.dtype, combination.cache, "not_here", reason=_one_line(reason), id=name
    )


def _status(report: Report, verdict: Verdict) -> CellStatus:
    status = verdict.status
    if status in ("eager_error", "create_error", "compile_error") and _OF_DEVICE.search(verdict.error or ""):
        return "not_here"
    if status in ("eager_error", "create_error"):
        return "eager_error"
    if status in ("compile_error", "timeout", "crash"):
        return status
    if status == "graph_break":
        return "breaks"
    return "recompiles" if report.recompiles else "runs"


def _tell_break(cell: AttentionCell, found: GraphBreak) -> None:
    cell.reason, cell.file, cell.line = found.gb_type, found.location.file, found.location.line
    if found.gb_id:
        cell.facts["gb_id"] = found.gb_id


def _without_stage(error: str | None) -> str:
    """The status says already that it was in eager."""
    return (error or "").removeprefix("eager: ")


def _one_line(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
