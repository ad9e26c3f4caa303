"""From what a program's own process timed, in turns, to the records of the report: for models too large to copy."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import msgspec

from dynalyze.bench.configurations import EAGER
from dynalyze.bench.records import ConfigRun, measurement
from dynalyze.bench.schedule import FirstCalls
from dynalyze.capture.bench.commands import Checked, Loaded, Warmed
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.capture.events import TimedInTurns
from dynalyze.capture.settings import Phase
from dynalyze.report.measurements import Measurement, Pair

SHARED = (
    "The model is too large for a copy in each of two processes: eager and compiled took turns in the program's own "
    "process, on the same parameters. What two processes differ by is not in the interval."
)


def measurements(event: TimedInTurns, configuration: Configuration) -> list[Measurement]:
    """Eager, and the configuration against it; each turn stands for a pair of processes."""
    load = msgspec.convert(event.load, Loaded)
    work = Work(cast(Phase, load.phase or "forward"))
    eager, row = ConfigRun(replace(EAGER, autocast=configuration.autocast), work), ConfigRun(configuration, work)
    eager.first = FirstCalls(load, Warmed(event.eager_calls_ms), Checked())
    row.first = FirstCalls(load, Warmed(counts=event.counts), Checked(invalid=event.invalid))
    row.warm = Warmed(event.calls_ms)
    for first, compiled, second in event.turns:
        row.pairs.append(Pair(first, compiled))
        eager.pairs.append(Pair(first, second))
        eager.eager_samples += first + second
    row.notes.append(SHARED)
    return [measurement(each, eager) for each in (eager, row)]
