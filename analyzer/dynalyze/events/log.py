"""What was read: an event from its JSON, the events of one process, and those of a whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from dynalyze.events.types import AnyEvent, Event, Metrics, ProcessStarted

_KINDS: dict[str, type] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyEvent)}
# Without these nobody knows what an event is about.
_IDENTITY = ("id", "epoch")


def decode_event(record: Mapping[str, Any]) -> tuple[AnyEvent | None, bool]:
    """The event that a record stands for, None for one of a kind that is not known; and whether all of it was kept.

    A field that is of another type or out of bounds falls back on its default, as if it had not been told.

    Raises:
        msgspec.ValidationError: what an event cannot be without is wrong.
    """
    name = record.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return None, isinstance(name, str)
    try:
        event: AnyEvent = msgspec.convert(record, kind)
        return event, True
    except msgspec.ValidationError:
        event = msgspec.convert({"event": name, **_fitting(record, kind)}, kind)
        return event, False


def _fitting(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Those of the values that fit the fields of a type."""
    found: dict[str, Any] = {}
    for name, kind_of_field in _fields(kind).items():
        value = values.get(name)
        if kind_of_field is Metrics and isinstance(value, dict):
            found[name] = _fitting(value, Metrics)
        elif name in values and (name in _IDENTITY or _fits(value, kind_of_field)):
            found[name] = value
    return found


def _fits(value: Any, field: Any) -> bool:
    try:
        msgspec.convert(value, field)
    except msgspec.ValidationError:
        return False
    return True


@cache
def _fields(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


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
