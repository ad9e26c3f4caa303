"""Reads a TORCH_TRACE log as the same events that our own listener writes.

A log is a line `V1121 02:40:00.123456 4711 torch/_logging/_internal.py:1234] {json}` for each record, with the lines
of its text below it, each after a tab. Reading is streaming: one record at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.capture.trace_records import TraceRecords
from dynalyze.events.log import ProcessLog
from dynalyze.events.types import AnyEvent, ProcessStarted

_HEADER = re.compile(rb"^[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ (?P<thread>\d+) [^\]]*\] (?P<json>\{.*)$")
_FILE_NAME = re.compile(r"(?:rank_(?P<rank>\d+)_)?.*?\.log$")
# Texts of these records matter; all others are skipped as they are read.
_LONGEST_TEXT = 1 << 20


@dataclass
class TraceLog:
    """One log. `unreadable` counts lines that are neither a record nor part of one's text."""

    path: Path
    unreadable: int = 0
    first_thread: int = 0
    events: list[AnyEvent] = field(default_factory=list)


def read_trace(path: Path) -> TraceLog:
    """Read a whole log; what cannot be read is counted and skipped.

    Raises:
        OSError: the file cannot be opened.
    """
    log = TraceLog(path)
    records = TraceRecords()
    for metadata, text in _records(path, log):
        try:
            event = records.read(metadata, text)
            if event is not None:
                log.events.append(msgspec.convert(event, AnyEvent, strict=False))
        except (msgspec.ValidationError, AttributeError, TypeError, KeyError, IndexError):
            log.unreadable += 1
    return log


def as_process(log: TraceLog, number: int, pid: int = 0) -> ProcessLog:
    """The log as the record of one process."""
    found = _FILE_NAME.match(log.path.name)
    rank = int(found["rank"]) if found and found["rank"] else None
    return ProcessLog(number, ProcessStarted(pid=pid or log.first_thread, rank=rank), list(log.events))


def _records(path: Path, log: TraceLog) -> Iterator[tuple[dict[str, Any], str]]:
    metadata: dict[str, Any] | None = None
    text: list[bytes] = []
    size = 0
    with path.open("rb") as lines:
        for line in lines:
            if line.startswith(b"\t"):
                size += len(line)
                if metadata is not None and size <= _LONGEST_TEXT:
                    text.append(line[1:])
                continue
            if metadata is not None:
                yield metadata, b"".join(text).decode(errors="replace").removesuffix("\n")
            metadata, text, size = _decoded(line, log), [], 0
    if metadata is not None:
        yield metadata, b"".join(text).decode(errors="replace").removesuffix("\n")


def _decoded(line: bytes, log: TraceLog) -> dict[str, Any] | None:
    header = _HEADER.match(line)
    if header is None:
        log.unreadable += bool(line.strip())
        return None
    log.first_thread = log.first_thread or int(header["thread"])
    try:
        found = msgspec.json.decode(header["json"])
    except (msgspec.DecodeError, UnicodeDecodeError):
        log.unreadable += 1
        return None
    return found if isinstance(found, dict) else None
