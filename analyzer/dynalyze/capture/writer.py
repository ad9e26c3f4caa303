"""Writes events to disk, one flushed line each, so that nothing recorded is lost by a crash.

One file a process: after a fork the child opens its own. The file is created with its first event, so helper
processes that never compile leave no trace.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dynalyze.capture.forks import after_fork
from dynalyze.capture.wire import EVENTS_FOLDER, TEXTS_FOLDER


class EventWriter:
    """Appends events of this process (and of its forks) below a run folder. Safe from any thread."""

    def __init__(self, run: Path, *, main: bool = False) -> None:
        self.run = run
        self._main = main
        self._pid = -1
        self._descriptor = -1
        self._texts = 0
        self._closed = False
        self._lock = threading.RLock()
        after_fork(self._after_fork)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event; `fields` must be JSON values. Raises OSError when the disk refuses."""
        line = _as_json({"event": event, "at": time.time(), **fields})
        with self._lock:
            if self._closed:
                return
            if self._pid != os.getpid():
                self._open()
            _write_all(self._descriptor, line.encode(errors="replace") + b"\n")

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
        """Write nothing more; what another thread still hears goes nowhere."""
        with self._lock:
            self._closed = True
            self._close_file()

    def _open(self) -> None:
        self._pid = os.getpid()
        folder = self.run / EVENTS_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{self._pid}-{time.time_ns()}.jsonl"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.write("process", **describe_process(main=self._main))

    def _after_fork(self) -> None:
        # The parent's lock may have been held by a thread that does not exist here.
        self._lock = threading.RLock()
        self._main = False
        self._close_file()

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._pid, self._descriptor = -1, -1


def describe_process(*, main: bool) -> dict[str, Any]:
    """Facts about this process for the report; only what the environment allowlist permits."""
    rank = os.environ.get("RANK", "")
    return {
        "main": main,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "rank": int(rank) if rank.isdigit() else None,
        "command": list(sys.argv),
        "python": ".".join(map(str, sys.version_info[:3])),
        "implementation": sys.implementation.name,
        "platform": sys.platform,
    }


def _as_json(record: dict[str, Any]) -> str:
    """One line of strict JSON; a number that JSON has no word for becomes a string."""
    try:
        return json.dumps(record, default=str, ensure_ascii=False, allow_nan=False)
    except ValueError:
        loose = json.dumps(record, default=str, ensure_ascii=False)
        return json.dumps(json.loads(loose, parse_constant=str), ensure_ascii=False)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
