"""What was read: the events of one process, and of a whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dynalyze.events.types import AnyEvent, ProcessStarted


@dataclass
class ProcessLog:
    """All events of one process, in the order in which they were written."""

    process: int
    started: ProcessStarted
    events: list[AnyEvent] = field(default_factory=list)


@dataclass
class RunLog:
    """Everything a run wrote. Process 0 is the target's main process, the others follow in order of start."""

    processes: list[ProcessLog] = field(default_factory=list)
    unreadable: int = 0
    # The code behind `GraphSeen.text`; "" where it was not kept.
    read_text: Callable[[str], str] = field(default=lambda name: "", compare=False, repr=False)

    def all(self) -> Iterator[tuple[int, AnyEvent]]:
        for log in self.processes:
            for event in log.events:
                yield log.process, event

    @property
    def count(self) -> int:
        return sum(len(log.events) for log in self.processes)
