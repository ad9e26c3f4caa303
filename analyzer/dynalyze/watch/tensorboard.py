"""Curves of a job for TensorBoard: a folder for each rank, so that its ranks are compared in one chart."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say
from dynalyze.watch.metrics import COUNTS
from dynalyze.watch.records import JobRank
from dynalyze.watch.view import rank_name

_EVERY_SECONDS = 5.0


class Board:
    """Writes the counts of each rank at its step, every few seconds while they move, until the disk refuses.

    Raises UsageError where tensorboard is missing or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError as error:
            raise UsageError("--tensorboard needs tensorboard: pip install tensorboard") from error
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--tensorboard {folder}: {error.strerror}") from error
        self._writer, self._folder = Writer, folder
        self._writers: dict[str, Any] = {}
        self._written: dict[str, JobRank] = {}
        self._next = 0.0

    def show(self, rows: list[JobRank]) -> None:
        """Write what has moved, if it is time again."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._write(rows)

    def close(self, rows: list[JobRank]) -> None:
        """Write the last of it."""
        if self._next < float("inf"):
            self._write(rows)
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()

    def _write(self, rows: list[JobRank]) -> None:
        try:
            self._add(rows)
        except OSError as error:  # A full disk must not end the watching.
            say(f"--tensorboard {self._folder}: {error.strerror}; no more curves are written")
            self._next = float("inf")

    def _add(self, rows: list[JobRank]) -> None:
        for row in rows:
            name = rank_name(row)
            if row == self._written.get(name) or not row.steps:
                continue
            self._written[name] = row
            if name not in self._writers:
                self._writers[name] = self._writer(str(self._folder / name))
            for count, (_, value) in COUNTS.items():
                if count != "steps":
                    self._writers[name].add_scalar(f"dynalyze/{count}", value(row), row.steps)
            self._writers[name].flush()
