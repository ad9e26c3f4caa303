"""Reads a TORCH_TRACE log as the events that our own listener writes.

A record is a line `V1121 02:40:00.123456 4711 torch/_logging/_internal.py:1234] {json}`, with the lines of its text
below it, each after a tab. One record is read at a time, in bounded memory; the kinds that nobody needs are recognised
by their first bytes and not decoded.
"""

from __future__ import annotations

import datetime
import io
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from dynalyze.capture.events import (
    BreakSeen,
    CacheLooked,
    CompileEnded,
    CompileStarted,
    ErrorSeen,
    Event,
    Frame,
    GraphSeen,
    Metrics,
    ProcessStarted,
    RecompileSeen,
    SpecializedSeen,
    TorchLoaded,
)
from dynalyze.capture.trace_records import BYPASSES, CACHE_RECORDS, CONTEXT_KEYS, CacheKeys, TraceRecords, compile_id_of
from dynalyze.events.log import ProcessLog, decode_event
from dynalyze.files.read_write import open_input
from dynalyze.text.json_text import read_json

_BLOCK = 1 << 20
# Longer lines are cut. torch's own stay far below: the longest are metrics, of some 50 KB.
_LONGEST_LINE = 8 << 20
_LONGEST_TEXT = 1 << 20
# A line that belongs to no text, with the newline before it. The regex engine skips to newlines at memory speed.
_NOT_TEXT = re.compile(rb"\n([^\t\n][^\n]*)")


class _RecordHead(NamedTuple):
    """The first line of a record that is read."""

    pid: int
    at: float
    kind: str
    metadata: dict[str, Any]


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole lines, a newline before each line and none at the end; each with the offset of its
    first byte in the file, which is -1 for the first: that newline is not in the file.
    """
    offset = file.tell()
    while block := file.read(_BLOCK):
        if not block.endswith(b"\n"):
            rest = file.readline(_LONGEST_LINE)
            block += rest
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(_BLOCK)
        yield offset - 1, b"\n" + block.removesuffix(b"\n")
        offset = file.tell()


def _decoded(text: bytearray) -> str:
    return text.replace(b"\n\t", b"\n")[1:].decode(errors="replace")


_MOST_QUOTES = 20_000
_LONGEST_QUOTE = 400
_IN_TRACEBACK = re.compile(r'^ *File "([^"\n]+)", line (\d{1,9}), in [^\n]*\n +(\S[^\n]*)', re.MULTILINE)
_IN_GRAPH = re.compile(r"# File: ([^\n]+):(\d{1,9}) in [^\n]+?, code: ([^\n]+)")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?(\w*(?:Error|Exception|Unsupported|Exceeded))(?::|$)", re.MULTILINE)
_OF_DYNAMO = re.compile(r"(.*[\\/]torch)[\\/]_dynamo[\\/]convert_frame\.py$")


class TraceProcess:
    """Collects the events of one process, and the source lines that its records quote."""

    def __init__(self, pid: int, files: dict[int, str] | None = None) -> None:
        self.pid = pid
        self.rank: int | None = None
        self.torch_folder = ""
        self.quoted: dict[tuple[str, int], str] = {}
        self.records = TraceRecords(files)
        self.events: list[Event] = []
        # The compiles whose guards are built, by epoch and id.
        self.guarded: set[tuple[int, str]] = set()
        self._frames: dict[Frame, Frame] = {}

    def add(self, event: Event, metadata: dict[str, Any], text: str) -> None:
        self.events.append(event)
        if isinstance(event, CompileStarted):
            event.stack = [self._frames.setdefault(frame, frame) for frame in event.stack]
            if not self.torch_folder:
                folders = (_OF_DYNAMO.match(name) for name in self.records.files.values())
                self.torch_folder = next((found[1] for found in folders if found), "")
        if len(self.quoted) < _MOST_QUOTES:
            self._quote(event, metadata, text)

    def supply_ends(self) -> int:
        """End the compiles without metrics in the log, as other records show they ended; returns how many.

        The last compile may not have ended: nothing is made up for it.
        """
        ended = {event.key for event in self.events if isinstance(event, CompileEnded) and not event.backward}
        starts = [event for event in self.events if isinstance(event, CompileStarted)]
        missing = [event for event in starts if event.key not in ended]
        if missing and missing[-1] is starts[-1] and starts[-1].key not in self.guarded:
            missing.pop()
        graphs = {event.key for event in self.events if isinstance(event, GraphSeen)}
        errors = {event.key: event for event in self.events if isinstance(event, ErrorSeen)}
        broken = {event.key for event in self.events if isinstance(event, BreakSeen)}
        for start in missing:
            key = start.key
            error = errors.get(key)
            metrics: Metrics = {"has_guarded_code": key in self.guarded or (key in graphs and error is None)}
            if not metrics["has_guarded_code"] and (error or key in broken):
                raised = _RAISED.findall(error.text if error else "")
                metrics["fail_type"] = raised[-1] if raised else "Unsupported"
            self.events.append(CompileEnded(id=start.id, epoch=start.epoch, metrics=metrics))
        return len(missing)

    def _quote(self, event: Event, metadata: dict[str, Any], text: str) -> None:
        quotes: Iterable[tuple[str, int | str, str]] = ()
        if isinstance(event, CompileStarted):
            code = [event.code] if event.code else []
            quotes = _quoted_in_stack([*event.stack, *code], metadata["dynamo_start"].get("stack"))
        elif isinstance(event, SpecializedSeen):
            quotes = _quoted_in_stack(event.stack, metadata["symbolic_shape_specialization"].get("user_stack"))
        elif isinstance(event, GraphSeen):
            quotes = _IN_GRAPH.findall(text)
        elif isinstance(event, BreakSeen | ErrorSeen):
            quotes = _IN_TRACEBACK.findall(event.text)
        for file, line, code_there in quotes:
            if code_there.strip():
                self.quoted.setdefault((file, int(line)), code_there.strip()[:_LONGEST_QUOTE])


def _quoted_in_stack(frames: list[Frame], entries: Any) -> Iterator[tuple[str, int, str]]:
    for frame, entry in zip(frames, entries or (), strict=False):
        if isinstance(entry.get("loc"), str):
            yield frame.file, frame.line, entry["loc"]


_RECORD = re.compile(
    rb"[A-Z](?P<day>\d{4}) (?P<time>\d\d:\d\d:\d\d)\.(?P<micro>\d{1,6})\d* (?P<pid>\d{1,18}) [^\]\n]*\] "
    rb'(?P<json>\{(?: ?"(?P<kind>\w+)" ?: ?(?:\{ ?"name" ?: ?"(?P<artifact>[^"\\]*)")?)?.*)',
    re.DOTALL,
)
_RANK = re.compile(r"rank_(\d{1,9})_")
_VERSION = "torch_version"
# Torch writes one of these once Dynamo has built the guards of a frame: it has compiled code then.
_GUARDS = ("dynamo_cpp_guards_str", "dynamo_guards")
_EVENTS = frozenset(TraceRecords().readers).union(CACHE_RECORDS)
_KINDS = CONTEXT_KEYS.union(_EVENTS, ("str", _VERSION, *_GUARDS))
_KINDS_WITH_TEXT = CONTEXT_KEYS.union(
    {_VERSION, "dynamo_output_graph", "dynamo_graph_break_reason", "dynamo_error", "recompile_reasons"},
    BYPASSES,
    CACHE_RECORDS,
)

# What all logs together hold beyond these is left out, and said to be: a report of more is of no use to anybody.
MOST_EVENTS = 80_000
MOST_TEXT = 16 << 20
_SHORT_TEXT = 2000
_MOST_SETTINGS = 64
_MOST_RANK = 10**9

_DAMAGED = (msgspec.ValidationError, AttributeError, TypeError, KeyError, IndexError, ValueError, RecursionError)


@dataclass
class TraceLog:
    """One log: the processes that wrote it, in the order of their first records.

    `unreadable` counts lines that are neither a record nor its text, and records that make no sense; `omitted` the
    events beyond `MOST_EVENTS`; `unmeasured` the compiles without metrics. `settings` are the texts that
    `CacheLooked.settings` refers to by number.
    """

    path: Path
    unreadable: int = 0
    omitted: int = 0
    unmeasured: int = 0
    records: int = 0
    processes: list[ProcessLog] = field(default_factory=list)
    quoted: dict[tuple[str, int], str] = field(default_factory=dict)
    torch_folder: str = ""
    settings: list[str] = field(default_factory=list)


def read_trace(path: Path, share: int = 1) -> TraceLog:
    """A whole log; what cannot be read is counted and skipped. `read_text` gives the texts of graphs.

    `share` logs are read together: each gets this part of the memory. Raises OSError where the file cannot be read.
    """
    log = TraceLog(path)
    with open_input(path) as file:
        _LogReader(log, share).read(file)
    return log


class LiveTrace:
    """A log that is being written. A record is read once it is whole: the next one has begun, or nothing has come
    since the last look.
    """

    def __init__(self, path: Path) -> None:
        self._reader = _LogReader(TraceLog(path), 1)
        self._reader.most_events = sys.maxsize
        self._path = path
        self._read, self._size = 0, -1

    def new(self) -> Iterator[tuple[TraceProcess, list[Event]]]:
        """What each process has written since the last look. Raises OSError where the log cannot be read."""
        with open_input(self._path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(self._read)
            data = file.read(size - self._read)
        whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
        if size != self._size:
            last = list(_NOT_TEXT.finditer(b"\n" + whole))[-1:]
            whole = whole[: max(0, last[0].start())] if last else b""
        self._read, self._size = self._read + len(whole), size
        self._reader.take(io.BytesIO(whole))
        for process in self._reader.processes:
            found, process.events = process.events, []
            if found:
                yield process, found


def read_text(path: Path, reference: str) -> str:
    """The text that a `GraphSeen.text` of this log refers to."""
    start, end = place_of(reference)
    with open_input(path) as file:
        file.seek(start)
        return _decoded(bytearray(file.read(min(end - start, _LONGEST_TEXT))))


def place_of(reference: str) -> tuple[int, int]:
    """Where in the log a text begins and ends."""
    start, _, end = reference.partition(":")
    return int(start), int(end)


def is_trace(start: bytes) -> bool:
    """Whether these first bytes of a file hold a record."""
    return any(_RECORD.match(line) for line in start.split(b"\n"))


class _LogReader:
    """Deals the records of one log out to the processes that wrote them."""

    def __init__(self, log: TraceLog, share: int) -> None:
        self._log = log
        self._year = time.gmtime(log.path.stat().st_mtime).tm_year
        self.processes: list[TraceProcess] = []
        self._now: dict[int, TraceProcess] = {}
        self._of_rank: dict[tuple[int, int], TraceProcess] = {}
        self._events = 0
        self._texts: dict[str, str] = {}
        self.most_events = MOST_EVENTS // share
        self._room = MOST_TEXT // share

    def read(self, file: BinaryIO) -> None:
        self.take(file)
        named = _RANK.search(self._log.path.name)
        for number, process in enumerate(self.processes):
            self._log.unmeasured += process.supply_ends()
            self._log.quoted.update(process.quoted)
            self._log.torch_folder = self._log.torch_folder or process.torch_folder
            rank = int(named[1]) if process.rank is None and named else process.rank
            self._log.processes.append(ProcessLog(number, ProcessStarted(pid=process.pid, rank=rank), process.events))

    def take(self, file: BinaryIO) -> None:
        head: _RecordHead | None = None
        text, start, end = bytearray(), 0, 0

        def append(block: bytes, at: int, until: int) -> None:
            if head is not None and head.kind in _KINDS_WITH_TEXT and (room := _LONGEST_TEXT - len(text)) > 0:
                text.extend(block[at : min(until, at + room)])

        for offset, block in _blocks(file):
            at = 0
            for line in _NOT_TEXT.finditer(block):
                append(block, at, line.start())
                at = line.end()
                found = _RECORD.match(line[1])
                if found is None:  # The text it stands in goes on after it.
                    self._log.unreadable += 1
                    continue
                self._take(head, text, start, offset + line.start())
                head, start = self._head(found), offset + at
            append(block, at, len(block))
            end = offset + len(block)
        self._take(head, text, start, end)

    def _head(self, found: re.Match[bytes]) -> _RecordHead | None:
        """The head of a record; None for a kind that is not read."""
        self._log.records += 1
        kind = (found["artifact"] if found["kind"] == b"artifact" else None) or found["kind"] or b"stack"
        name = kind.decode(errors="replace")
        # Records of another version may name their context first: those are decoded, whatever they are.
        if name not in _KINDS:
            return None
        if name in _EVENTS:
            self._events += 1
            if self._events > self.most_events:
                self._log.omitted += 1
                return None
        try:
            metadata = read_json(found["json"])
        except msgspec.DecodeError:
            self._log.unreadable += 1
            return None
        if not isinstance(metadata, dict):
            return None
        return _RecordHead(int(found["pid"]), _seconds(self._year, found), name, metadata)

    def _take(self, head: _RecordHead | None, text: bytearray, start: int, end: int) -> None:
        """Add a record with its text, which is emptied; `start` and `end` are its place in the file."""
        if head is not None:
            try:
                self._add(head, _decoded(text), f"{start}:{end}")
            except _DAMAGED:
                self._log.unreadable += 1
        text.clear()

    def _add(self, head: _RecordHead, text: str, place: str) -> None:
        process = self._process(head)
        if head.kind == _VERSION:
            version = read_json(text.encode()).get("pytorch_version")
            if isinstance(version, str) and version:
                process.events.append(TorchLoaded(version=version))
            return
        if head.kind in _GUARDS:
            process.guarded.add((process.records.epoch, compile_id_of(head.metadata)))
            return
        event = process.records.read(head.metadata, text)
        if event is None:
            return
        event.at = head.at
        found, whole = decode_event({"event": event.tag, **msgspec.to_builtins(event)})
        self._log.unreadable += not whole
        if isinstance(found, GraphSeen):
            found.text = place
        elif isinstance(found, BreakSeen | ErrorSeen | RecompileSeen):
            self._share_text(found)
        elif isinstance(found, CacheLooked):
            self._limit(found)
        if found is not None:
            process.add(found, head.metadata, text)

    def _process(self, head: _RecordHead) -> TraceProcess:
        """The process of a record, by id and rank: in containers every rank has the same id."""
        rank = head.metadata.get("rank")
        current = self._now.get(head.pid)
        if type(rank) is not int or not 0 <= rank <= _MOST_RANK:
            return current or self._new(head.pid)
        if current is None or current.rank not in (None, rank):
            current = self._of_rank.get((head.pid, rank)) or self._new(head.pid)
            self._now[head.pid] = current
        current.rank = rank
        return self._of_rank.setdefault((head.pid, rank), current)

    def _new(self, pid: int) -> TraceProcess:
        # A forked process goes on in its parent's log, with its parent's table of file names.
        parent = self._now.get(pid) or next(iter(self._now.values()), None)
        process = TraceProcess(pid, dict(parent.records.files) if parent is not None else None)
        process.records.readers.update(CacheKeys(self._write_settings).readers)
        self._now[pid] = process
        self.processes.append(process)
        return process

    def _write_settings(self, text: str) -> str:
        """Keep settings, hundreds of lines that hardly differ between keys, once; returns their number."""
        kept = self._log.settings
        if text not in kept:
            if len(kept) >= _MOST_SETTINGS:
                return ""
            kept.append(text)
        return str(kept.index(text))

    def _limit(self, event: CacheLooked) -> None:
        """Drop the components of a key once the texts of the log fill their room; its digest stays."""
        size = sum(len(value) for *_, value in event.components)
        if size > self._room:
            event.components = []
        else:
            self._room -= size

    def _share_text(self, event: BreakSeen | ErrorSeen | RecompileSeen) -> None:
        """Keep a text once, however many compiles repeat it."""
        if event.text not in self._texts:
            if len(event.text) > max(self._room, _SHORT_TEXT):
                event.text = event.text[:_SHORT_TEXT]
            self._room -= len(event.text)
        event.text = self._texts.setdefault(event.text, event.text)


def _seconds(year: int, found: re.Match[bytes]) -> float:
    """The time of a record in this year, in UTC: a log names neither, and differences are what matters."""
    day, clock, micro = (found[name].decode() for name in ("day", "time", "micro"))
    try:
        return datetime.datetime.fromisoformat(f"{year}-{day[:2]}-{day[2:]}T{clock}.{micro:0<6}+00:00").timestamp()
    except ValueError:  # A date that does not exist.
        return 0.0
