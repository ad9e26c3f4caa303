"""What features measure in a benchmark, besides speed, memory and answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from dynalyze import registry
from dynalyze.bench.schedule import Arm, RecordedProcess
from dynalyze.bench.workers import WorkerPool
from dynalyze.report import Report
from dynalyze.report.intervals import MeasuredPart
from dynalyze.report.measurements import Pair


@dataclass(frozen=True)
class RowBench:
    """What a feature needs to measure more of a row: its processes, and pairs of equal ones as the control.

    `seconds` are timed per process. `recorded_seconds` is how long the recorded process took. `doing` updates the
    progress line.
    """

    pool: WorkerPool
    arm: Arm
    control: Sequence[Pair]
    calls: int
    seconds: float
    recorded_seconds: float
    budget: float | None
    generator: random.Random
    doing: Callable[[str], AbstractContextManager[None]]


class Extra(Protocol):
    """The part of a feature in a benchmark: `EXTRA` of its module `run`. `field` is the field of the measurement,
    `what` its name in sentences. A `part` is the result of `measure` or `failed`.
    """

    field: str
    what: str

    def measure(self, process: RecordedProcess, seconds: float, notes: list[str]) -> MeasuredPart:
        """Measure for about so many seconds; raises WorkerFailed."""

    def failed(self, problem: str) -> MeasuredPart:
        """The part if the process failed."""

    def ahead(self, part: Any, budget: float | None) -> int:
        """How many more processes `measure_more` would start."""

    def measure_more(self, part: Any, bench: RowBench) -> None:
        """Called once speed is measured; raises Stopped when the time is up."""

    def settle(self, report: Report) -> None:
        """Called once the measurements are in the report of a run, whose facts have ids of their own."""


def extras() -> list[Extra]:
    return [module.EXTRA for module in registry.modules("run")]
