"""Watches a run from outside: progress, and when to end the target's own program softly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from dynalyze.capture.wire import EVENTS_FOLDER
from dynalyze.text.amounts import count_of

_STOP_SIGNAL = getattr(signal, "SIGURG", None)
_GRACE_SECONDS = 10.0


class _Head(msgspec.Struct):
    event: str = ""
    pid: int = 0
    main: bool = False
    id: str = ""
    backward: bool = False


class Watch:
    """Reads the events as they come. `poll` is called some times a second while the target runs."""

    def __init__(
        self,
        folder: Path,
        stop_after: float | None,
        progress: Callable[[str], None],
        every: float = 10.0,
    ) -> None:
        self._events = folder / EVENTS_FOLDER
        self._stop_after = stop_after
        self._progress = progress
        self._every = every  # seconds between two lines of progress
        self._offsets: dict[Path, int] = {}
        self._began = self._last_compile = self._last_progress = time.monotonic()
        self._decoder = msgspec.json.Decoder(_Head)
        self._main_pid = 0
        self._stopped_at: float | None = None
        self._program_ended = False
        self._in_progress: set[tuple[Path, str]] = set()
        self.compiled = self.breaks = 0
        self._shown = (0, 0)

    def poll(self) -> bool:
        """Look for news; True when the target has to be ended now, because it did not stop when told to."""
        if self._events.is_dir():
            for path in self._events.glob("*.jsonl"):
                for line in self._new_lines(path):
                    self._note(path, line)
        now = time.monotonic()
        if now - self._last_progress > self._every and (self.compiled, self.breaks) != self._shown:
            self._shown = (self.compiled, self.breaks)
            self._last_progress = now
            compiled, breaks = count_of(self.compiled, "compilation"), count_of(self.breaks, "break event")
            self._progress(f"{now - self._began:.0f} s: {compiled}, {breaks} so far")
        if self._program_ended:
            return False
        if self._stopped_at is not None:
            return now - self._stopped_at > _GRACE_SECONDS
        quiet = self._stop_after is not None and self.compiled and now - self._last_compile > self._stop_after
        if quiet and self._main_pid and not self._in_progress:
            self._stopped_at = now
            if _STOP_SIGNAL is not None:
                try:
                    os.kill(self._main_pid, _STOP_SIGNAL)
                except ProcessLookupError:
                    self._program_ended = True
        return False

    def _new_lines(self, path: Path) -> list[bytes]:
        offset = self._offsets.get(path, 0)
        if path.stat().st_size <= offset:
            return []
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
        whole = data.rpartition(b"\n")[0]
        self._offsets[path] = offset + len(whole) + (1 if whole else 0)
        return whole.splitlines()

    def _note(self, path: Path, line: bytes) -> None:
        try:
            head = self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        if head.event == "process" and head.main:
            self._main_pid = head.pid
        elif head.event == "compile_start":
            self.compiled += 1
            self._in_progress.add((path, head.id))
            self._last_compile = time.monotonic()
        elif head.event == "compile_end":
            self._in_progress.discard((path, head.id))
            self._last_compile = time.monotonic()
        elif head.event == "break":
            self.breaks += 1
        elif head.event in ("program_end", "object_start"):
            self._program_ended = True
