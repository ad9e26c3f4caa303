"""What each process did, side by side: with several ranks, the first place to look for the one that differs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from dynalyze.render.view.links import Anchors, Shown, shown
from dynalyze.report import Compilation, Process, Report
from dynalyze.words.report import compile_seconds, count_of, duration

MAX_PROCESSES = 200


@dataclass(frozen=True)
class ProcessRow:
    anchor: str
    name: str
    rank: str
    compilations: str
    eager: str
    breaks: str
    recompiles: str
    ops: str
    seconds: str
    cache: str
    command: str


@dataclass(frozen=True)
class ProcessesView:
    """Empty for a single process."""

    items: list[ProcessRow]
    amount: Shown
    ranks: bool
    commands: bool


def processes_view(report: Report, anchors: Anchors) -> ProcessesView:
    """A row for each process, in order of process; columns that no process fills are left out."""
    every = report.processes if len(report.processes) > 1 else []
    some, amount = shown(every, MAX_PROCESSES)
    rows = [_row(report, process, anchors) for process in some]
    return ProcessesView(
        items=rows,
        amount=amount,
        ranks=any(row.rank for row in rows),
        commands=any(row.command for row in rows),
    )


def _row(report: Report, process: Process, anchors: Anchors) -> ProcessRow:
    number = process.process
    compiled = [each for each in report.compilations if each.process == number]
    times = [compile_seconds(each.seconds) for each in compiled]
    known = [seconds for seconds in times if seconds is not None]
    return ProcessRow(
        anchor=anchors.claim(f"process-{number}"),
        name=f"{number} (pid {process.pid})",
        rank="" if process.rank is None else str(process.rank),
        compilations=f"{len(compiled):,}",
        eager=f"{sum(each.status in ('eager', 'failed') for each in compiled):,}",
        breaks=f"{sum(number in each.processes for each in report.graph_breaks):,}",
        recompiles=f"{sum(each.process == number for each in report.recompiles):,}",
        ops=f"{sum(each.ops or 0 for each in compiled):,}",
        seconds=duration(sum(known)) if known else "",
        cache=_cache(compiled),
        command=shlex.join(process.command),
    )


def _cache(compiled: list[Compilation]) -> str:
    """ "3 hits, 1 miss", of all caches together."""
    hits, misses = 0, 0
    for each in compiled:
        for name, count in each.cache.items():
            hits += count if isinstance(count, int) and name.endswith("hit") else 0
            misses += count if isinstance(count, int) and name.endswith("miss") else 0
    if not hits and not misses:
        return ""
    return f"{count_of(hits, 'hit')}, {count_of(misses, 'miss', 'misses')}"
