"""Writes events to disk, one flushed line each, so that nothing recorded is lost by a crash.

One file a process: after a fork the child opens its own. The file is created with its first event, so helper
processes that never compile leave no trace. Our descriptor lives in a program that may close all it knows nothing of,
as daemons do, and whose next file then has that number: it is looked at before each use.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dynalyze.capture.events import Event, Lost, ProcessStarted, Reopened
from dynalyze.capture.hooks import after_fork
from dynalyze.capture.wire import EVENTS_FOLDER, TEXTS_FOLDER


class EventWriter:
    """Appends events of this process (and of its forks) below a run folder. Safe from any thread.

    `most_kept` lines may wait for a disk, or for a free descriptor.
    """

    most_kept = 10_000

    def __init__(self, run: Path, *, main: bool = False) -> None:
        self.run = run
        self._main = main
        self._pid = -1
        self._path = Path()
        self._descriptor = -1
        self._file: tuple[int, int] | None = None
        self._kept: collections.deque[bytes] = collections.deque()
        self._dropped = 0
        self._texts = 0
        self._closed = False
        self._lock = threading.RLock()
        after_fork(self._after_fork)

    def open(self) -> None:
        """Make the file, whose first line describes the process, before there is an event."""
        with self._lock, contextlib.suppress(OSError):
            self._write_kept()

    def write(self, event: Event) -> None:
        """Append one event; what the disk refuses is tried again with the next one."""
        event.at = time.time()
        line = as_line(event)
        with self._lock:
            if self._closed:
                return
            if self._pid not in (-1, os.getpid()):
                self._forget_file()
            self._keep(line)
            with contextlib.suppress(OSError):
                self._write_kept()

    def write_text(self, text: str) -> str:
        """Store a long text in a file of its own; returns its name below the run folder."""
        with self._lock:
            if self._closed:
                return ""
            self._texts += 1
            name = f"{TEXTS_FOLDER}/{os.getpid()}-{self._texts}.txt"
            folder = self.run / TEXTS_FOLDER
            folder.mkdir(mode=0o700, exist_ok=True)
            (self.run / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        return name

    def close(self) -> None:
        """Write nothing more; later events of other threads are dropped."""
        with self._lock:
            self._closed = True
            self._close_file()

    def _keep(self, line: bytes) -> None:
        if len(self._kept) < self.most_kept:
            self._kept.append(line)
        else:
            self._dropped += 1

    def _write_kept(self) -> None:
        if not self._is_ours():
            self._open()
        elif not os.fstat(self._descriptor).st_nlink:
            self._restore()
        while self._kept:
            try:
                data = self._kept[0]
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                self._kept[0] = b"\n" + self._kept[0].lstrip(b"\n")  # A part of it may be there.
                raise
            self._kept.popleft()
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self.write(Lost(message=f"{dropped} events, which could not be written for too long"))

    def _open(self) -> None:
        """Open this process's file, for the first time or where the program has closed it; say which of them."""
        self._descriptor, self._file = -1, None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if self._pid == -1:
            folder = self.run / EVENTS_FOLDER
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = folder / self.file_name()
            self._descriptor = os.open(path, flags, 0o600)
            self._pid, self._path = os.getpid(), path
            first = self.first_events()
        else:
            self._descriptor = os.open(self._path, flags, 0o600)
            first = [Reopened()]
        self._file = _file_of(self._descriptor)
        for event in reversed(first):
            event.at = time.time()
            self._kept.appendleft(as_line(event))

    def file_name(self) -> str:
        """Of the next file of this process; what is before its first dot tells processes apart."""
        return f"{os.getpid()}-{time.time_ns()}.jsonl"

    def first_events(self) -> list[Event]:
        """The first events of a file: whose it is."""
        started = ProcessStarted(
            main=self._main, pid=os.getpid(), parent=os.getppid(), rank=number_of("RANK"),
            command=list(sys.argv), python=".".join(map(str, sys.version_info[:3])),
            implementation=sys.implementation.name, platform=sys.platform,
        )  # fmt: skip
        return [started]

    def _restore(self) -> None:
        """Make the file again: the program has removed it with its temporary files, and we still hold what is in it."""
        written = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        self.run.mkdir(mode=0o700, exist_ok=True)
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        os.close(self._descriptor)
        self._open()
        self._kept[0] = written
        if self._texts:
            lost = Lost(message="graphs and sources that the program removed with the folder they were recorded in")
            self._keep(as_line(lost))

    def _is_ours(self) -> bool:
        return self._file is not None and _file_of(self._descriptor) == self._file

    def _after_fork(self) -> None:
        # The parent's lock may have been held by a thread that does not exist here.
        self._lock = threading.RLock()
        self._main = False
        self._forget_file()

    def _forget_file(self) -> None:
        """Close the parent's file; the lines still waiting are written by the parent."""
        self._close_file()
        self._kept.clear()
        self._dropped = 0

    def _close_file(self) -> None:
        if self._is_ours():
            os.close(self._descriptor)
        self._pid, self._descriptor, self._file = -1, -1, None


def has_event(run: Path, kind: type[Event]) -> bool:
    """Whether a process of a run has written such an event."""
    files = (run / EVENTS_FOLDER).glob("*.jsonl")
    return any(f'"event": "{kind.tag}"' in file.read_text(encoding="utf-8", errors="replace") for file in files)


def number_of(variable: str) -> int | None:
    """The number that a variable of the environment holds; None of one that no launcher writes."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def as_line(event: Event) -> bytes:
    """One line of strict JSON; a number that JSON has no word for becomes a string."""
    record = {"event": event.tag, **vars(event)}
    try:
        text = json.dumps(record, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        loose = json.dumps(record, default=_plain, ensure_ascii=False)
        text = json.dumps(json.loads(loose, parse_constant=str), ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


def _plain(value: Any) -> Any:
    """The fields of a part of an event, such as a Frame; anything else as a text."""
    return vars(value) if type(value).__module__ == Event.__module__ else str(value)


def _file_of(descriptor: int) -> tuple[int, int] | None:
    """Device and inode of an open descriptor; None where it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
