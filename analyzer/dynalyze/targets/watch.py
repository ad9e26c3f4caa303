"""Watches a run from outside: progress, and when to end the target's own program softly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from dynalyze.capture.wire import EVENTS_FOLDER
from dynalyze.render.amounts import count_of

_STOP_SIGNAL = getattr(signal, "SIGURG", None)
# A program that never compiles is stopped at this share of the time limit, to leave time for the replay.
_EAGER_SHARE = 0.75
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
        timeout: float,
        stop_after: float | None,
        progress: Callable[[str], None],
        every: float = 10.0,
        *,
        records: bool = True,
    ) -> None:
        self._events = folder / EVENTS_FOLDER
        self._timeout = timeout
        self._stop_after = stop_after
        self._progress = progress
        self._records = records  # without that there is nothing to replay, and no reason to stop early for it
        self._every = every  # seconds between two lines of progress
        self._offsets: dict[Path, int] = {}
        self._began = self._last_compile = self._last_progress = time.monotonic()
        self._decoder = msgspec.json.Decoder(_Head)
        self._main_pid = 0
        self._stopped_at: float | None = None
        self._program_ended = False
        self._asked_for_compile = False
        self._called_a_model = False
        self._in_progress: set[tuple[Path, str]] = set()
        self.compiled = self.breaks = 0
        # The program was stopped softly because its time was nearly up, not because compiling had settled.
        self.out_of_time = False
        self._told = (0, 0)

    def poll(self) -> bool:
        """Look for news; True when the target has to be ended now, because it did not stop when told to."""
        self._read()
        now = time.monotonic()
        self._tell(now)
        if self._stopped_at is None:
            if not self._program_ended and self._is_due(now):
                self._stop(now)
            return False
        return not self._program_ended and now - self._stopped_at > _GRACE_SECONDS

    def _is_due(self, now: float) -> bool:
        if not self._main_pid or self._in_progress:
            return False
        quiet = now - self._last_compile
        if self.compiled or self._asked_for_compile:
            return self._stop_after is not None and bool(self.compiled) and quiet > self._stop_after
        if not self._records:
            return False
        if self._stop_after is not None and self._called_a_model and quiet > self._stop_after:
            return True
        self.out_of_time = now - self._began > self._timeout * _EAGER_SHARE
        return self.out_of_time

    def _stop(self, now: float) -> None:
        self._stopped_at = now
        if self._main_pid and _STOP_SIGNAL is not None:
            try:
                os.kill(self._main_pid, _STOP_SIGNAL)
            except ProcessLookupError:
                self._program_ended = True

    def _tell(self, now: float) -> None:
        if now - self._last_progress > self._every and (self.compiled, self.breaks) != self._told:
            self._told = (self.compiled, self.breaks)
            self._last_progress = now
            compiled, breaks = count_of(self.compiled, "compilation"), count_of(self.breaks, "break event")
            self._progress(f"{now - self._began:.0f} s: {compiled}, {breaks} so far")

    def _read(self) -> None:
        if not self._events.is_dir():
            return
        for path in self._events.glob("*.jsonl"):
            for line in self._new_lines(path):
                self._note(path, line)

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
        except msgspec.DecodeError:
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
        elif head.event == "model_called":
            self._called_a_model = True
            self._last_compile = time.monotonic()
        elif head.event == "compile_call":
            self._asked_for_compile = True
        elif head.event == "break":
            self.breaks += 1
        elif head.event in ("program_end", "object_start"):
            self._program_ended = True
