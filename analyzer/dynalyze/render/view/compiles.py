"""The compilations of the page, what made functions compile again, the processes, and the files that were read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynalyze.render.view.links import Anchors, Index, Link, Place, Shown, shown
from dynalyze.render.view.plots.changes import changes_plot
from dynalyze.render.view.plots.drawing import Plot
from dynalyze.report import Compilation, Process, Recompile, Report, TracedFile
from dynalyze.words.report import (
    compile_seconds,
    count_of,
    duration,
    short_path,
)

MAX_RECOMPILES = 300
MAX_COMPILATIONS = 300
MAX_FILES = 300
MAX_SEE = 12

BAR_WIDTH = 100
"""The width of a full bar, in the units of its drawing."""


@dataclass(frozen=True)
class RecompilesView:
    items: Sequence[Recompile]
    amount: Shown
    plot: Plot | None


@dataclass(frozen=True)
class CompilationView:
    """A compilation with the way to all that belongs to it. `bar` is its time beside the longest, "" where unknown."""

    fact: Compilation
    link: Link
    place: Place
    seconds: float | None
    bar: str
    see: list[Link]
    see_omitted: int


@dataclass(frozen=True)
class CompilationsView:
    items: list[CompilationView]
    amount: Shown
    several_processes: bool


@dataclass(frozen=True)
class FilesView:
    """Each file with its anchor."""

    items: list[tuple[str, TracedFile]]
    amount: Shown
    set_hash: str


def recompiles_view(report: Report, links: Index) -> RecompilesView:
    """Every recompile, in the order in which they happened."""
    some, amount = shown(report.recompiles, MAX_RECOMPILES)
    return RecompilesView(some, amount, changes_plot(report, links.facts))


def compilations_view(report: Report, links: Index, drawings: Mapping[str, Mapping[str, str]]) -> CompilationsView:
    """One row a compilation, its bar relative to the slowest of all.

    `drawings` tells for each drawing of the page, by its name, where it has which compilation.
    """
    some, amount = shown(report.compilations, MAX_COMPILATIONS)
    slowest = max((compile_seconds(item.seconds) or 0.0 for item in report.compilations), default=0.0)
    several = len({item.process for item in report.compilations}) > 1
    return CompilationsView([_compilation(item, links, slowest, drawings) for item in some], amount, several)


def _compilation(
    item: Compilation, links: Index, slowest: float, drawings: Mapping[str, Mapping[str, str]]
) -> CompilationView:
    seconds = compile_seconds(item.seconds)
    key = (item.process, item.epoch, item.compile_id)
    link = links.compilation(*key)
    met, amount = shown(links.met.get(key, []), MAX_SEE)
    return CompilationView(
        fact=item,
        link=link,
        place=links.place(item.location),
        seconds=seconds,
        bar=f"{BAR_WIDTH * seconds / slowest:.1f}" if seconds and slowest else "",
        see=[*met, *(Link(name, places[link.anchor]) for name, places in drawings.items() if link.anchor in places)],
        see_omitted=amount.omitted,
    )


def files_view(report: Report, anchors: Anchors) -> FilesView:
    """The files that the compiler read; the user's own first."""
    origins = ("user", "library", "torch")
    ordered = sorted(report.traced_files, key=lambda item: origins.index(item.origin))
    some, amount = shown(ordered, MAX_FILES)
    return FilesView(
        [(anchors.claim(f"file-{short_path(item.path)}"), item) for item in some], amount, report.traced_hash
    )


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
    rows = [_process(report, process, anchors) for process in some]
    return ProcessesView(
        items=rows,
        amount=amount,
        ranks=any(row.rank for row in rows),
        commands=any(row.command for row in rows),
    )


def _process(report: Report, process: Process, anchors: Anchors) -> ProcessRow:
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
        cache=_hits_and_misses(compiled),
        command=shlex.join(process.command),
    )


def _hits_and_misses(compiled: list[Compilation]) -> str:
    """ "3 hits, 1 miss", of all caches together."""
    hits, misses = 0, 0
    for each in compiled:
        for name, count in each.cache.items():
            hits += count if isinstance(count, int) and name.endswith("hit") else 0
            misses += count if isinstance(count, int) and name.endswith("miss") else 0
    if not hits and not misses:
        return ""
    return f"{count_of(hits, 'hit')}, {count_of(misses, 'miss', 'misses')}"
