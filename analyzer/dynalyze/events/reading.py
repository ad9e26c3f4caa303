"""Reads the event files of a run folder."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from dynalyze.capture.events import (
    KINDS,
    CompilerEvent,
    Event,
    HookSeen,
    InPlaceDropped,
    InPlaceFailed,
    InPlaceStarted,
    ModuleSeen,
    ProcessStarted,
    SettingsSeen,
    SkippedSeen,
)
from dynalyze.capture.wire import EVENTS_FOLDER, TEXTS_FOLDER, TRACE_FOLDER
from dynalyze.events.log import ProcessLog, RunLog, decode_event
from dynalyze.events.torch_trace import read_trace
from dynalyze.text.json_text import is_deep, read_json

# A line as a child writes it; any other is read the slow way.
_HEAD = re.compile(rb'\{"event": "(\w+)"')
_DECODERS = {tag.encode(): msgspec.json.Decoder(kind) for tag, kind in KINDS.items()}
# Names that the child gives to side files; whatever else an event says opens nothing.
_TEXT_NAME = re.compile(rf"{TEXTS_FOLDER}/\d+-\d+\.txt")
# What compiling in place leaves behind.
_OF_COMPILING = (CompilerEvent, HookSeen, InPlaceStarted, InPlaceFailed, ModuleSeen, SettingsSeen, SkippedSeen)


def read_run(folder: Path) -> RunLog:
    """The events of a run folder; a line cut short by a crash is only counted.

    A process without our listener left a log of torch's own instead.
    """
    run = RunLog(read_text=partial(_read_text, folder))
    for path in sorted((folder / EVENTS_FOLDER).glob("*.jsonl")):
        log = _read_file(path, run)
        if log is not None:
            run.processes.append(log)
    for path in sorted((folder / TRACE_FOLDER).glob("*.log")):
        trace = read_trace(path)
        run.unreadable += trace.unreadable
        run.processes += trace.processes
    run.processes.sort(key=lambda log: (not log.started.main, log.started.at))
    for number, log in enumerate(run.processes):
        log.process = number
    return run


def _read_text(folder: Path, name: str) -> str:
    path = folder / name
    if not _TEXT_NAME.fullmatch(name) or path.is_symlink():
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_file(path: Path, run: RunLog) -> ProcessLog | None:
    log: ProcessLog | None = None
    with path.open("rb") as lines:
        for line in lines:
            event = decode_line(line, run)
            if isinstance(event, ProcessStarted) and log is None:
                log = ProcessLog(0, event)
            elif isinstance(event, InPlaceDropped) and log is not None:
                log.events = [each for each in log.events if not isinstance(each, _OF_COMPILING)]
            elif event is not None and log is not None:
                log.events.append(event)
    return log


def decode_line(line: bytes, run: RunLog) -> Event | None:
    """The event of a line, None for an unknown kind. What cannot be read, a field or a line, is counted in `run`."""
    head = _HEAD.match(line)
    if head is not None and (decoder := _DECODERS.get(head[1])) is not None and not is_deep(line):
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, UnicodeError):
            pass
    try:
        event, whole = decode_event(read_json(line, dict[str, Any]))
    except msgspec.DecodeError:
        event, whole = None, False
    run.unreadable += not whole
    return event
