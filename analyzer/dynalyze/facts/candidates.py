"""What a program that compiles nothing called and that could have been compiled."""

from __future__ import annotations

from dynalyze.events.log import RunLog
from dynalyze.events.types import CallableSeen, CallablesSeen, CandidateEntry, InPlaceStarted
from dynalyze.facts.sources import Sources
from dynalyze.report import Candidate, Compilation

_MOST = 100


def compiled_in_place(run: RunLog) -> bool:
    """Whether the program compiles nothing by itself, and had its modules compiled in its own calls."""
    return any(isinstance(event, InPlaceStarted) for _, event in run.all())


def candidates(run: RunLog, compiled: list[Compilation], sources: Sources) -> list[Candidate]:
    """The table, by time spent; empty for a program that compiles by itself.

    The main process tells counts at its end. Of the others, and where the program was killed, first calls are known.
    """
    if compiled and not compiled_in_place(run):
        return []
    rows: dict[tuple[str, ...], Candidate] = {}
    seconds = 0.0
    for process, event in run.all():
        if isinstance(event, CallablesSeen):
            seconds = seconds if process else event.seconds
            for entry in event.entries:
                rows[_key(entry)] = _candidate(entry, sources)
    for _, event in run.all():
        if isinstance(event, CallableSeen):
            rows.setdefault(_key(event.entry), _candidate(event.entry, sources, counted=False))
    for row in rows.values():
        if row.seconds is not None and seconds > 0:
            row.share = round(min(1.0, row.seconds / seconds), 4)
    return sorted(rows.values(), key=lambda row: (row.kind != "module", -(row.seconds or 0.0)))[:_MOST]


def _key(entry: CandidateEntry) -> tuple[str, ...]:
    return entry.kind, entry.name, entry.class_name, entry.file, str(entry.line)


def _candidate(entry: CandidateEntry, sources: Sources, *, counted: bool = True) -> Candidate:
    """`counted=False`: what was told at the first call, before it was counted."""
    location = sources.location(entry.file, entry.line, entry.function) if entry.file else None
    return Candidate(
        kind=entry.kind,
        name=entry.name,
        class_name=entry.class_name,
        location=location,
        calls=entry.calls if counted else None,
        parameters=entry.parameters,
        seconds=entry.seconds if counted else None,
        compiled=entry.compiled,
        reason=entry.reason,
        error=entry.error,
    )
