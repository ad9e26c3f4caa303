"""What was read: an event from its JSON, the events of one process, and those of a whole run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec

from dynalyze.capture import events
from dynalyze.capture.events import KINDS, Event, Metrics, ProcessStarted

# The declaration is the child's, which has no msgspec: its bounds of numbers become those that msgspec holds to.
for _name in ("Whole", "Count", "Length"):
    _number, (_least, _most) = get_args(getattr(events, _name))
    setattr(events, _name, Annotated[_number, msgspec.Meta(ge=_least, le=_most)])
# Without these nobody knows what an event is about.
_IDENTITY = ("id", "epoch")


def decode_event(record: Mapping[str, Any]) -> tuple[Event | None, bool]:
    """The event of a record, None for an unknown kind; and whether all of the record was kept.

    A field of the wrong type or out of bounds falls back on its default. Raises msgspec.ValidationError where a field
    that an event needs is wrong.
    """
    name = record.get("event")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        return None, isinstance(name, str)
    try:
        return msgspec.convert(record, kind), True
    except msgspec.ValidationError:
        return msgspec.convert(_fitting(record, kind), kind), False


def _fitting(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The values that fit the fields of a type."""
    found: dict[str, Any] = {}
    for name, kind_of_field in _fields(kind).items():
        value = values.get(name)
        if kind_of_field is Metrics and isinstance(value, dict):
            found[name] = _fitting(value, Metrics)
        elif name in values:
            with contextlib.suppress(msgspec.ValidationError):
                if name not in _IDENTITY:
                    msgspec.convert(value, kind_of_field)
                found[name] = value
    return found


_fields = cache(partial(get_type_hints, include_extras=True))
_Kind = TypeVar("_Kind", bound=Event)


@dataclass
class ProcessLog:
    """All events of one process, in the order in which they were written."""

    process: int
    started: ProcessStarted
    events: list[Event] = field(default_factory=list)


@dataclass
class RunLog:
    """Everything a run wrote. Process 0 is the target's main process, the others follow in order of start."""

    processes: list[ProcessLog] = field(default_factory=list)
    unreadable: int = 0
    # The code behind `GraphSeen.text`; "" where it was not kept.
    read_text: Callable[[str], str] = field(default=lambda name: "", compare=False, repr=False)

    def all(self) -> Iterator[tuple[int, Event]]:
        for log in self.processes:
            for event in log.events:
                yield log.process, event

    def last(self, kind: type[_Kind]) -> _Kind | None:
        """The last event of a kind of the main process."""
        events = self.processes[0].events if self.processes else ()
        return next((event for event in reversed(events) if isinstance(event, kind)), None)

    @property
    def count(self) -> int:
        return sum(len(log.events) for log in self.processes)
