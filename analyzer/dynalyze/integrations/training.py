"""What the callbacks of trainers share: a recording of a training, and its report at the end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynalyze.recording.recorder import Recording

if TYPE_CHECKING:
    from dynalyze.report import Report
    from dynalyze.watch.training import WatchedTraining

_log = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]


class RecordsTraining:
    """Records what torch.compile does while a trainer trains, and writes the report at its end, an error included.

    `html` and `json` name the files. `stop_after_steps`: record only that many steps; training goes on. The counts of
    graph breaks and recompiles go to what the trainer logs to. The recording itself is `seen`. In a distributed job the
    first process records. Whatever goes wrong at the end is a warning: it never ends a training.

    With `watch`, a folder, every process is watched instead, as `dynalyze watch` does: for a training of days. Steps
    are those of the trainer, and `dynalyze watch FOLDER` tells recompiles by rank while they happen.
    """

    def __init__(
        self, *, html: PathLike | None = None, json: PathLike | None = None, stop_after_steps: int | None = None,
        watch: PathLike | None = None,
    ) -> None:  # fmt: skip
        if watch is not None and stop_after_steps is not None:
            raise ValueError("watch and stop_after_steps exclude each other: a job is watched to its end")
        self._files = [_checked(Path(file), suffix) for file, suffix in ((html, ".html"), (json, ".json")) if file]
        self._stop_after_steps = stop_after_steps
        self._watch = None if watch is None else Path(watch)
        self._first_step = 0
        self._open = False
        self.seen: Recording | WatchedTraining | None = None

    def _begin(self, step: int, libraries: Sequence[str], *, first: bool) -> None:
        """Record from this step on; breaks are told at lines outside of these folders. `first`: of its job's processes
        this is the one that writes the report.
        """
        self._first_step, self._open = step, first
        if self._watch is not None:
            from dynalyze.watch.training import WatchedTraining

            self.seen = WatchedTraining(self._watch, step)
            if self.seen.folder.resolve() != self._watch.resolve():
                _log.warning("This process is watched in %s: nothing is written to %s", self.seen.folder, self._watch)
        elif first:
            self.seen = Recording(outside=tuple(libraries)).start()

    def _stepped(self, step: int) -> bool:
        """Take that so many steps have ended; whether as many were recorded as were asked for."""
        if self.seen is not None and not isinstance(self.seen, Recording):
            self.seen.stepped(step)
        return self._stop_after_steps is not None and step - self._first_step >= self._stop_after_steps

    def _end(self, error: BaseException | None, tell: Callable[[Report, dict[str, int]], None]) -> None:
        """End the recording, save it and `tell` of it; once for each."""
        if not self._open or self.seen is None:
            return
        self._open = False
        self.seen.stop(error)
        try:
            for file in self._files:
                self.seen.save(file)
            report = self.seen.report
            tell(report, {"graph_breaks": len(report.graph_breaks), "recompiles": len(report.recompiles)})
        except Exception as problem:
            _log.warning("dynalyze could not write its report: %s: %s", type(problem).__name__, problem)


def _checked(file: Path, suffix: str) -> Path:
    """A file that can be written at the end of a training of days; a ValueError says why it cannot."""
    if file.suffix != suffix:
        raise ValueError(f"{file}: name a file that ends in {suffix}")
    if not os.access(file.resolve().parent, os.W_OK):
        raise ValueError(f"{file}: no such directory, or not writable: {file.resolve().parent}")
    return file
