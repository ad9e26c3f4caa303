"""What was read: the events of one process, and of a whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from dynalyze.events.types import AnyEvent, Event, ProcessStarted

_Kind = TypeVar("_Kind", bound=Event)


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

    def last(self, kind: type[_Kind]) -> _Kind | None:
        """The last event of a kind that the main process told."""
        events = self.processes[0].events if self.processes else ()
        return next((event for event in reversed(events) if isinstance(event, kind)), None)

    @property
    def count(self) -> int:
        return sum(len(log.events) for log in self.processes)
