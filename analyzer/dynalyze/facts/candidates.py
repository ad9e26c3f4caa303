"""What could be compiled of a program that compiles nothing: what it called, and what became of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from dynalyze.capture import events
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.report import Candidate, Compilation

_MOST_CANDIDATES = 100
_Key: TypeAlias = tuple[str, str, str, str, int]
_Row: TypeAlias = tuple[_Key, bool, str]
_Number = TypeVar("_Number", int, float)


def compiled_in_place(run: RunLog) -> bool:
    """Whether the program compiles nothing by itself, and had its modules compiled in its own calls."""
    return any(isinstance(event, events.InPlaceStarted) for _, event in run.all())


def candidates(run: RunLog, compiled: list[Compilation], sources: Sources) -> list[Candidate]:
    """The table, by time spent; empty for a program that compiles by itself.

    Processes tell counts from time to time, the main one at its end too; of what came later, first calls are known.
    What has no name of its own, and became of the same, is one row.
    """
    if compiled and not compiled_in_place(run):
        return []
    rows: dict[_Row, Candidate] = {}
    counts = {process: event for process, event in run.all() if isinstance(event, events.CandidatesCounted)}
    for counted in counts.values():
        alike: dict[_Row, list[events.CandidateEntry]] = {}
        for entry in counted.entries:
            alike.setdefault((_key(entry), entry.compiled, entry.reason), []).append(entry)
        for key, entries in alike.items():
            rows.setdefault(key, _candidate(entries, counted.seconds, sources))
    known = {key for key, _, _ in rows}
    for _, event in run.all():
        if isinstance(event, events.CandidateSeen) and _key(event.entry) not in known:
            rows.setdefault((_key(event.entry), False, ""), _candidate([event.entry], None, sources))
    return sorted(rows.values(), key=lambda row: (row.kind != "module", -(row.seconds or 0.0)))[:_MOST_CANDIDATES]


def _key(entry: events.CandidateEntry) -> _Key:
    return entry.kind, entry.name, entry.class_name, entry.file, entry.line


def _candidate(alike: list[events.CandidateEntry], of_program: float | None, sources: Sources) -> Candidate:
    """A row for entries that differ in their counts alone; `of_program` is None where they are not counted yet."""
    entry = alike[0]
    seconds = None if of_program is None else _sum([each.seconds for each in alike])
    return Candidate(
        kind=entry.kind,
        name=entry.name,
        class_name=entry.class_name,
        location=sources.location(entry.file, entry.line, entry.function) if entry.file else None,
        calls=None if of_program is None else _sum([each.calls for each in alike]),
        parameters=_sum([each.parameters for each in alike]),
        seconds=seconds,
        share=round(min(1.0, seconds / of_program), 4) if of_program and seconds is not None else None,
        compiled=entry.compiled,
        reason=entry.reason,
        error=entry.error,
    )


def _sum(values: Sequence[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
