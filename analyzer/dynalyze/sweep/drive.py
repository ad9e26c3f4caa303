"""Sees a sweep through: what is not done yet goes to the pool, what comes back is kept, progress is shown."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TextIO

from msgspec.structs import replace

from dynalyze.launch.streams import Streams
from dynalyze.sweep.folder import About, SweepFolder, store, sweep_of
from dynalyze.sweep.pool import Pool
from dynalyze.sweep.records import STATUSES, TRACED, Item, Sweep
from dynalyze.sweep.shown import shown
from dynalyze.sweep.work import Finished, RunSettings
from dynalyze.text.amounts import duration
from dynalyze.text.escape import notice, one_line

_PLAIN_SECONDS = 10.0
_TERMINAL_SECONDS = 0.2
_OUTPUT_LINES = 10


class SweepProgress:
    """Progress on standard error: a line that renews itself on a terminal, one line every ten seconds elsewhere.

    Of what items print, the last lines of failed ones are shown, with `quiet` none.
    """

    def __init__(self, planned: int, done_before: int, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._streams = Streams("", stream=stream)
        self._planned, self._before = planned, done_before
        self._quiet = quiet
        self._counts: Counter[str] = Counter()
        self._began = self._shown_at = time.monotonic()
        self._shown = ""

    def done(self, finished: Finished) -> None:
        """Count an item that has ended; its row is redacted already."""
        row = finished.row
        self._counts[row.status] += 1
        if row.status in TRACED:
            return
        name = row.target if row.configuration == "default" else f"{row.target} ({row.configuration})"
        self._streams.say(notice(f"{name}: {row.status}: {row.error or 'no more is known'}"))
        for line in [] if self._quiet else finished.output.rstrip().splitlines()[-_OUTPUT_LINES:]:
            self._streams.say(f"{one_line(row.target)} | {line}")

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._shown_at < (_TERMINAL_SECONDS if self._streams.renews else _PLAIN_SECONDS):
            return
        self._shown_at = now
        line = notice(self.line(now - self._began))
        if self._streams.renews:
            self._streams.status(line)
        elif line != self._shown:
            self._streams.say(line)
        self._shown = line

    def close(self) -> None:
        self._streams.close()

    def line(self, seconds: float) -> str:
        """Counts, rate and time left, by the items of this run."""
        ended = sum(self._counts.values())
        counts = ", ".join(f"{self._counts[status]} {status}" for status in STATUSES if self._counts[status])
        parts = [f"{self._before + ended} of {self._planned} items", *([counts] if counts else [])]
        if ended and seconds > 0:
            left = (self._planned - self._before - ended) * seconds / ended
            parts += [f"{ended * 60 / seconds:.1f} a minute", f"about {duration(left)} left"]
        return "; ".join(parts)


def drive(
    items: Sequence[Item], pool: Pool, folder: SweepFolder, settings: RunSettings, about: About,
    progress: SweepProgress, keep_on: Callable[[], bool],
) -> Sweep:  # fmt: skip
    """The document of the sweep, once all items have ended or `keep_on` says no. Items whose rows are in the folder are
    not run again; each row is on the disk before the next one is looked at.
    """
    began = time.monotonic()
    clean = partial(shown, no_source=settings.no_source, redact=settings.redact)

    folder.describe(clean(about))
    waiting = [item for item in items if item.key not in folder.rows]

    def done(item: Item, finished: Finished) -> None:
        store(folder.path, item, finished, hide_names=settings.redact)
        # Its report is clean already. Secrets of the command are masked wherever a row has them.
        alone = sweep_of(replace(about, order=[finished.row.key]), [finished.row])
        finished.row = clean(alone).items[0]
        folder.append(finished.row)
        progress.done(finished)

    def going_on() -> bool:
        progress.tick()
        return keep_on()

    if waiting:
        try:
            pool.run(iter(waiting), done, going_on)
        finally:
            progress.close()
    about.seconds = round(time.monotonic() - began, 3)
    about.notes = [*about.notes, *pool.notes]
    folder.describe(clean(about))
    return clean(sweep_of(about, folder.rows.values()))
