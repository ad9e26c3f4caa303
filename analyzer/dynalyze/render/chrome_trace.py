"""Compiles as spans of time, and as Chrome's trace format, which Perfetto and chrome://tracing open.

torch tells how long a phase took, not when it began: inner phases lie at the end of the phase that holds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynalyze.render.text.report import COMPILATION_WORDS, phase_words
from dynalyze.report import PHASES, Compilation, Report, printable


@dataclass(frozen=True)
class Span:
    """One compile on the clock of the run. `began` is None where nobody knows."""

    compilation: Compilation
    backward: bool
    began: float | None
    seconds: dict[str, float]
    exclusive: dict[str, float]
    recompiled: bool

    @property
    def nested(self) -> list[tuple[str, float]]:
        """The phases that are known, outermost first; each one is no longer than the one that holds it."""
        found: list[tuple[str, float]] = []
        for phase in PHASES:
            if phase in self.seconds:
                length = max(0.0, self.seconds[phase])
                found.append((phase, min(length, found[-1][1]) if found else length))
        return found

    @property
    def length(self) -> float | None:
        """How long it took as a whole; None where it was not recorded."""
        return self.nested[0][1] if self.nested else None


def spans(report: Report) -> list[Span]:
    """All spans in order of their start; those whose start is not known come last."""
    again = {r.key for r in report.recompiles if r.cause != "limit"}
    found: list[Span] = []
    for item in report.compilations:
        recompiled = item.key in again
        found.append(Span(item, False, item.began, item.seconds, item.exclusive, recompiled))
        found += [Span(item, True, each.began, each.seconds, each.exclusive, recompiled) for each in item.backward]
    return sorted(found, key=lambda span: (span.began is None, span.began or 0.0))


Event = dict[str, Any]

_NO_START = 0
"""The row of compiles whose start is not known; the others count from 1."""


def render(report: Report) -> str:
    """One JSON document; times in microseconds since the start of the run."""
    rows = _Rows()
    slices = [event for span in spans(report) for event in _of_span(span, rows)]
    document = {"traceEvents": [*_process_names(report), *rows.names(), *slices], "displayTimeUnit": "ms"}
    return json.dumps(document) + "\n"


class _Rows:
    """Puts each span on the first row of its process that is free by then: slices of a row must never cross."""

    def __init__(self) -> None:
        self._ends: dict[int, list[int]] = {}
        self._unplaced: dict[int, int] = {}

    def place(self, span: Span) -> tuple[int, int]:
        """The row of a span, and its start in microseconds."""
        process = span.compilation.process
        length = _micro(span.length or 0.0)
        if span.began is None:
            start = self._unplaced.get(process, 0)
            self._unplaced[process] = start + length
            return _NO_START, start
        start = _micro(span.began)
        ends = self._ends.setdefault(process, [])
        row = next((at for at, end in enumerate(ends) if end <= start), len(ends))
        ends[row : row + 1] = [start + length]
        return row + 1, start

    def names(self) -> Iterator[Event]:
        for process in self._unplaced:
            yield _name("thread_name", process, _NO_START, "start not recorded: one after another")
        for process, ends in self._ends.items():
            for row in range(1, len(ends) + 1):
                name = "compiles" if row == 1 else f"compiles at the same time, {row}"
                yield _name("thread_name", process, row, name)


def _of_span(span: Span, rows: _Rows) -> Iterator[Event]:
    row, start = rows.place(span)
    common: Event = {"pid": span.compilation.process, "tid": row, "cat": "compile"}
    if not span.nested:
        yield {"name": _title(span), "ph": "i", "s": "t", "ts": start, **common, "args": _arguments(span)}
        return
    end = start + _micro(span.nested[0][1])
    for depth, (phase, seconds) in enumerate(span.nested):
        length = _micro(seconds)
        name = phase_words(phase) if depth else _title(span)
        yield {
            "name": name, "ph": "X", "ts": end - length, "dur": length, **common,
            "args": {"phase": phase, **(_arguments(span) if depth == 0 else {})},
        }  # fmt: skip


def _title(span: Span) -> str:
    item = span.compilation
    parts = [item.compile_id, item.name, "backward" if span.backward else ""]
    return printable(" ".join(part for part in parts if part))


def _arguments(span: Span) -> Event:
    item = span.compilation
    return {
        "compile_id": printable(item.compile_id),
        "function": printable(item.name),
        "location": printable(f"{item.location.file}:{item.location.line}"),
        "status": COMPILATION_WORDS[item.status],
        "recompile": span.recompiled,
        "epoch": item.epoch,
        **({} if item.ops is None else {"operations": item.ops}),
    }


def _process_names(report: Report) -> Iterator[Event]:
    known = {item.process: item for item in report.processes}
    for number in sorted({*known, *(item.process for item in report.compilations)}):
        name = f"process {number}"
        if number in known:
            name += f", pid {known[number].pid}"
            name += "" if known[number].rank is None else f", rank {known[number].rank}"
        yield _name("process_name", number, 0, name)


def _name(kind: str, process: int, row: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": row, "args": {"name": name}}


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)
