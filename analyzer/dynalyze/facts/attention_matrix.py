"""What can be concluded from an attention matrix: which combinations are good, and which of them is the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from dynalyze.report.audit import AttentionCell, AttentionMatrix, CellStatus

CellOutcome = Literal[
    "right", "untested", "suspicious", "breaks", "recompiles", "compile_error", "eager_error", "crash", "timeout",
    "not_here",
]  # fmt: skip
"""A status and the verdict on its numbers in one: right and untested are both `runs`."""

RAN: tuple[CellStatus, ...] = ("runs", "breaks", "recompiles")
_RIGHT = ("equal", "benign", "rounding only")


def outcome(cell: AttentionCell) -> CellOutcome:
    """The outcome of a combination: its status, and the verdict on its numbers."""
    if cell.status in RAN and cell.accuracy == "suspicious":
        return "suspicious"
    if cell.status == "runs":
        return "right" if cell.accuracy in _RIGHT else "untested"
    return cell.status


def right(matrix: AttentionMatrix) -> list[AttentionCell]:
    """The combinations that run without breaks or recompiles, and whose numbers are right."""
    return [cell for cell in matrix.cells if outcome(cell) == "right"]


def is_own(cell: AttentionCell, matrix: AttentionMatrix) -> bool:
    """Whether it is the combination that the target has by itself."""
    own = (matrix.own_attention, matrix.own_dtype, matrix.own_cache)
    return (cell.attention, cell.dtype, cell.cache) == own


def fastest(cells: Iterable[AttentionCell]) -> list[AttentionCell]:
    """The fastest of those that were timed, with all that cannot be told from it; empty where nothing can be said.

    Cells are timed one after another, not in pairs: less than the noise floor of either is no difference.
    """
    timed = sorted((cell for cell in cells if cell.latency_ms), key=lambda cell: cell.latency_ms or 0.0)
    if len(timed) < 2 or any(_floor(cell) is None for cell in timed):
        return []
    best, floor = timed[0].latency_ms or 0.0, _floor(timed[0]) or 0.0
    return [cell for cell in timed if (cell.latency_ms or 0.0) <= best * (1 + max(_floor(cell) or 0.0, floor))]


def instead_of(cell: AttentionCell, good: Sequence[AttentionCell]) -> AttentionCell | None:
    """The good combination nearest to this one: the same dtype before the same attention, the fastest of equals."""

    def distance(other: AttentionCell) -> tuple[bool, bool, bool, float]:
        differs = (other.dtype != cell.dtype, other.cache != cell.cache, other.attention != cell.attention)
        return *differs, other.latency_ms or 0.0

    return min(good, key=distance, default=None)


def _floor(cell: AttentionCell) -> float | None:
    return cell.speedup.floor if cell.speedup is not None else None
