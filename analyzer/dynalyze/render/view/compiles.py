"""The compilations of the page, what made functions compile again, the processes, and the files that were read."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from dynalyze.render.highlight import Code, code_at
from dynalyze.render.view.links import Anchors, Index, Link, Place, Shown, shown
from dynalyze.render.view.plots.changes import changes_plot
from dynalyze.render.view.plots.drawing import Plot
from dynalyze.report import Compilation, CompilationStatus, Process, Recompile, Report, TracedFile
from dynalyze.text.visible import clipped
from dynalyze.words.report import (
    cache_words,
    cause_words,
    compilation_name,
    compilation_words,
    compile_seconds,
    count_of,
    duration,
    short_path,
)

MAX_RECOMPILES = 300
MAX_COMPILATIONS = 300
MAX_FILES = 300
MAX_FUNCTIONS = 200
MAX_TEXT = 4000
MAX_SEE = 12

BAR_WIDTH = 100
"""The width of a full bar, in the units of its drawing."""


@dataclass(frozen=True)
class RecompileView:
    id: str
    anchor: str
    function: str
    place: Place
    code: Code | None
    is_limit: bool
    cause: str
    cause_words: str
    source: str
    expected: str
    actual: str
    guard: str
    of_module: str
    seconds: str
    compilation: Link
    previous: Link | None
    fixes: list[Link]


@dataclass(frozen=True)
class RecompilesView:
    items: list[RecompileView]
    amount: Shown
    plot: Plot | None


@dataclass(frozen=True)
class CompilationView:
    name: str
    anchor: str
    function: str
    resumes: bool
    place: Place
    status: CompilationStatus
    status_words: str
    reason: str
    ops: str
    seconds: str
    bar: str
    process: int
    cache: str
    see: list[Link]
    see_omitted: int


@dataclass(frozen=True)
class CompilationsView:
    items: list[CompilationView]
    amount: Shown
    several_processes: bool


@dataclass(frozen=True)
class FileView:
    anchor: str
    name: str
    path: str
    origin: str
    sha256: str
    count: str
    functions: list[str]
    functions_omitted: Shown


@dataclass(frozen=True)
class FilesView:
    items: list[FileView]
    amount: Shown
    set_hash: str


def recompiles_view(report: Report, links: Index) -> RecompilesView:
    """Every recompile, in the order in which they happened."""
    some, amount = shown(report.recompiles, MAX_RECOMPILES)
    return RecompilesView([_recompile(item, links) for item in some], amount, changes_plot(report, links.facts))


def _recompile(item: Recompile, links: Index) -> RecompileView:
    def link(compile_id: str) -> Link:
        return links.compilation(item.process, item.epoch, compile_id)

    return RecompileView(
        id=item.id,
        anchor=links.fact(item.id).anchor,
        function=item.location.function,
        place=links.place(item.location),
        code=code_at(item.location, None),
        is_limit=item.cause == "limit",
        cause=item.cause,
        cause_words=cause_words(item.cause),
        source=clipped(item.source or "", MAX_TEXT),
        expected=clipped(item.expected or "", MAX_TEXT),
        actual=clipped(item.actual or "", MAX_TEXT),
        guard=clipped(item.guard, MAX_TEXT),
        of_module=clipped(item.of_module.guard, MAX_TEXT) if item.of_module is not None else "",
        seconds="" if item.seconds is None else duration(item.seconds),
        compilation=link(item.compile_id),
        previous=link(item.previous) if item.previous else None,
        fixes=links.fix(item.id),
    )


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
    anchor = links.compilation(*key).anchor
    met, amount = shown(links.met.get(key, []), MAX_SEE)
    drawn = [Link(name, places[anchor]) for name, places in drawings.items() if anchor in places]
    return CompilationView(
        name=compilation_name(*key),
        anchor=anchor,
        function=item.function or item.location.function,
        resumes=item.resumes,
        place=links.place(item.location),
        status=item.status,
        status_words=compilation_words(item.status),
        reason=clipped(item.reason, MAX_TEXT),
        ops="" if item.ops is None else f"{item.ops:,}",
        seconds="" if seconds is None else duration(seconds),
        bar=f"{BAR_WIDTH * seconds / slowest:.1f}" if seconds and slowest else "",
        process=item.process,
        cache=clipped(cache_words(item), MAX_TEXT),
        see=[*met, *drawn],
        see_omitted=amount.omitted,
    )


def files_view(report: Report, anchors: Anchors) -> FilesView:
    """The files that the compiler read; the user's own first."""
    origins = ("user", "library", "torch")
    ordered = sorted(report.traced_files, key=lambda item: origins.index(item.origin))
    some, amount = shown(ordered, MAX_FILES)
    return FilesView([_file(item, anchors) for item in some], amount, report.traced_hash)


def _file(item: TracedFile, anchors: Anchors) -> FileView:
    functions, amount = shown(item.functions, MAX_FUNCTIONS)
    return FileView(
        anchor=anchors.claim(f"file-{short_path(item.path)}"),
        name=short_path(item.path),
        path=item.path,
        origin=item.origin,
        sha256=item.sha256,
        count=count_of(len(item.functions), "function"),
        functions=[f"{function.name}:{function.line}" for function in functions],
        functions_omitted=amount,
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
