"""Sees a sweep through: gives the pool what is not done yet, keeps what comes back, and makes the document of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

import dynalyze
from dynalyze import privacy
from dynalyze.fleet.folder import About, SweepFolder, sweep_of
from dynalyze.fleet.items import Item
from dynalyze.fleet.pool import Pool
from dynalyze.fleet.progress import Progress
from dynalyze.fleet.storing import store
from dynalyze.fleet.work import Finished, RunSettings
from dynalyze.privacy.sweep import without_source
from dynalyze.sweep.records import Row, Sweep


@dataclass(frozen=True)
class Job:
    """What a sweep is: its items, where they run, and how much of it may be shown."""

    items: Sequence[Item]
    pool: Pool
    folder: SweepFolder
    settings: RunSettings
    about: About


def about(
    items: Sequence[Item], command: list[str], environment: dict[str, Any], workers: int, notes: list[str], created: str
) -> About:
    """What is written beside the rows before the first item starts."""
    return About(
        dynalyze=dynalyze.__version__,
        created=created,
        command=command,
        environment=environment,
        order=[item.key for item in items],
        planned=len(items),
        workers=workers,
        notes=notes,
    )


def drive(job: Job, progress: Progress, keep_on: Callable[[], bool]) -> Sweep:
    """Run what is not done yet; returns the document of all that is, when everything is or `keep_on` says no.

    Each row is on the disk before the next one is looked at.
    """
    began = time.monotonic()
    folder, describing = job.folder, job.about
    folder.describe(_cleaned_about(describing, job.settings))
    waiting = [item for item in job.items if item.key not in folder.rows]

    def done(item: Item, finished: Finished) -> None:
        store(folder.path, item, finished, hide_names=job.settings.redact)
        finished = replace(finished, row=_cleaned(finished.row, describing, job.settings))
        folder.append(finished.row)
        progress.done(finished)

    def ask() -> bool:
        progress.tick()
        return keep_on()

    if waiting:
        try:
            job.pool.run(iter(waiting), done, ask)
        finally:
            progress.close()
    describing.seconds = round(time.monotonic() - began, 3)
    describing.notes = [*describing.notes, *job.pool.notes]
    folder.describe(_cleaned_about(describing, job.settings))
    return _shown(sweep_of(describing, folder.rows), job.settings)


def _cleaned(row: Row, describing: About, settings: RunSettings) -> Row:
    """A row as it may be shown; its report is clean already."""
    alone = {row.key: row}
    sweep = sweep_of(msgspec.structs.replace(describing, order=[row.key]), alone)
    return _shown(sweep, settings).items[0]


def _cleaned_about(describing: About, settings: RunSettings) -> About:
    shown = _shown(sweep_of(describing, {}), settings)
    return msgspec.structs.replace(describing, command=shown.command, notes=shown.notes, environment=shown.environment)


def _shown(sweep: Sweep, settings: RunSettings) -> Sweep:
    sweep = privacy.mask_secrets(sweep)
    if settings.no_source:
        sweep = without_source(sweep)
    return privacy.redact(sweep) if settings.redact else sweep
