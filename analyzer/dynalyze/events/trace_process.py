"""One process as a TORCH_TRACE log tells of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dynalyze.capture.trace_records import TraceRecords, compile_id_of
from dynalyze.events.log import ProcessLog
from dynalyze.events.types import (
    AnyEvent,
    BreakSeen,
    CompileEnded,
    CompilerEvent,
    CompileStarted,
    ErrorSeen,
    Frame,
    GraphSeen,
    Metrics,
    ProcessStarted,
    SpecializedSeen,
    TorchLoaded,
)
from dynalyze.text.json_text import read_json

_MOST_QUOTES = 20_000
_LONGEST_QUOTE = 400
_IN_TRACEBACK = re.compile(r'^ *File "([^"\n]+)", line (\d{1,9}), in [^\n]*\n +(\S[^\n]*)', re.MULTILINE)
_IN_GRAPH = re.compile(r"# File: ([^\n]+):(\d{1,9}) in [^\n]+?, code: ([^\n]+)")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(\w*(?:Error|Exception|Unsupported|Exceeded))(?::|$)", re.MULTILINE)
_OF_DYNAMO = re.compile(r"(.*[\\/]torch)[\\/]_dynamo[\\/]convert_frame\.py$")

_Key = tuple[int, str]


class TraceProcess:
    """Collects the events of one process, and the source lines that its records quote."""

    def __init__(self, pid: int, files: dict[int, str] | None = None) -> None:
        self.pid = pid
        self.rank: int | None = None
        self.torch_folder = ""
        self.quoted: dict[tuple[str, int], str] = {}
        self.records = TraceRecords(files)
        self._events: list[AnyEvent] = []
        self._guarded: set[_Key] = set()
        self._frames: dict[Frame, Frame] = {}

    def loaded(self, text: str) -> None:
        """The record of torch's version."""
        version = read_json(text.encode()).get("pytorch_version")
        if isinstance(version, str) and version:
            self._events.append(TorchLoaded(version=version))

    def guarded(self, metadata: dict[str, Any]) -> None:
        """The guards of a compile are built."""
        self._guarded.add((self.records.epoch, compile_id_of(metadata)))

    def add(self, event: AnyEvent, metadata: dict[str, Any], text: str) -> None:
        self._events.append(event)
        if isinstance(event, CompileStarted):
            event.stack = [self._frames.setdefault(frame, frame) for frame in event.stack]
            self._note_torch(event)
        if len(self.quoted) < _MOST_QUOTES:
            self._quote(event, metadata, text)

    def as_log(self, number: int, rank: int | None) -> ProcessLog:
        """The process, with the rank that its records name, or else its file's name."""
        rank = self.rank if self.rank is not None else rank
        return ProcessLog(number, ProcessStarted(pid=self.pid, rank=rank), self._events)

    def supply_ends(self) -> int:
        """End the compiles whose metrics the log lacks, as far as other records tell how; returns how many.

        The last compile of a log may never have ended: nothing is made up for it.
        """
        ended = {_key(event) for event in self._events if isinstance(event, CompileEnded) and not event.backward}
        starts = [event for event in self._events if isinstance(event, CompileStarted)]
        missing = [event for event in starts if _key(event) not in ended]
        if missing and missing[-1] is starts[-1] and _key(starts[-1]) not in self._guarded:
            missing.pop()
        graphs = {_key(event) for event in self._events if isinstance(event, GraphSeen)}
        errors = {_key(event): event for event in self._events if isinstance(event, ErrorSeen)}
        broken = {_key(event) for event in self._events if isinstance(event, BreakSeen)}
        for start in missing:
            key = _key(start)
            error = errors.get(key)
            metrics: Metrics = {"has_guarded_code": key in self._guarded or (key in graphs and error is None)}
            if not metrics["has_guarded_code"] and (error or key in broken):
                metrics["fail_type"] = _exception_in(error.text if error else "") or "Unsupported"
            self._events.append(CompileEnded(id=start.id, epoch=start.epoch, metrics=metrics))
        return len(missing)

    def _note_torch(self, event: CompileStarted) -> None:
        if not self.torch_folder:
            folders = (_OF_DYNAMO.match(name) for name in self.records.files.values())
            self.torch_folder = next((found[1] for found in folders if found), "")

    def _quote(self, event: AnyEvent, metadata: dict[str, Any], text: str) -> None:
        if isinstance(event, CompileStarted):
            told = metadata["dynamo_start"].get("stack")
            self._keep(self._quoted_in_stack([*event.stack, *([event.code] if event.code else [])], told))
        elif isinstance(event, SpecializedSeen):
            told = metadata["symbolic_shape_specialization"].get("user_stack")
            self._keep(self._quoted_in_stack(event.stack, told))
        elif isinstance(event, GraphSeen):
            self._keep((m[1], int(m[2]), m[3]) for m in _IN_GRAPH.finditer(text))
        elif isinstance(event, BreakSeen | ErrorSeen):
            self._keep((m[1], int(m[2]), m[3]) for m in _IN_TRACEBACK.finditer(event.text))

    def _quoted_in_stack(self, frames: list[Frame], told: Any) -> Iterator[tuple[str, int, str]]:
        for frame, entry in zip(frames, told or (), strict=False):
            if isinstance(entry.get("loc"), str):
                yield frame.file, frame.line, entry["loc"]

    def _keep(self, quotes: Iterator[tuple[str, int, str]]) -> None:
        for file, line, code in quotes:
            if code.strip():
                self.quoted.setdefault((file, line), code.strip()[:_LONGEST_QUOTE])


def _key(event: CompilerEvent) -> _Key:
    return event.epoch, event.id


def _exception_in(text: str) -> str:
    found = _RAISED.findall(text)
    return found[-1] if found else ""
