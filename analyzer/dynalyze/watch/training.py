"""A training that is watched from inside, by the callback of its trainer."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from dynalyze.privacy import showable
from dynalyze.recording.recorder import HasReport, ending
from dynalyze.report import Outcome, Report
from dynalyze.watch.child import start
from dynalyze.watch.report import job_report


class WatchedTraining(HasReport):
    """Has this process watched from step `number` of its training on; its report is that of the whole job. Its records
    are in `folder`, which is another where the process is watched already.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self._steps = start.begin_training(folder, number), number
        self._began = time.monotonic()
        self._ended: Outcome | None = None

    def stepped(self, number: int) -> None:
        """So many steps have ended, by the trainer's own count: batches that are accumulated end none."""
        if number > self._steps:
            self._steps = number
            start.stepped(number)

    def stop(self, error: BaseException | None = None) -> None:
        """The training is over; `error` is what ended it. The process stays watched: another training may follow."""
        start.save()
        self._ended = ending(error, time.monotonic() - self._began)

    @property
    def report(self) -> Report:
        """The typed report of all processes that write to the folder."""
        report = job_report(self.folder, sys.argv)
        if self._ended is not None and (self._ended.status != "complete" or report.compilations):
            report.outcome = self._ended
        return showable(report, no_source=False, redact=False, show_values=False)
