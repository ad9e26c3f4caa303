"""What the compiler did: functions left in eager without a graph break, specializations, compilations, processes, and
the files that were read.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping

from dynalyze.render.view.links import (
    MAX_COMPILATIONS,
    MAX_SIZES,
    MAX_SKIPPED,
    Anchors,
    Index,
    Link,
    Listed,
    first,
)
from dynalyze.render.words.report import count_of, duration, phase_words, short_path
from dynalyze.report import Compilation, ForcedSize, Process, Report, SkippedFrame, TracedFile

MAX_FILES = 300
MAX_SEE = 12
MAX_PROCESSES = 200
MAX_OPEN = 12
"""Rows of a table that is not folded away."""


def skipped_view(report: Report) -> Listed[SkippedFrame]:
    """One row a function and reason; those that work on tensors first."""
    some = first(report.skipped_frames, MAX_SKIPPED)
    return Listed(sorted(some.items, key=lambda item: not item.tensors), some.total)


def forced_sizes_view(report: Report) -> Listed[ForcedSize]:
    """One row a size and line, those that cost something first."""
    some = first(report.forced_sizes, MAX_SIZES)
    return Listed(sorted(some.items, key=lambda item: not (item.refused or item.recompiles)), some.total)


class CompilationView:
    """A compilation with the way to all that belongs to it. `phases` are what each took itself, backward included."""

    def __init__(self, item: Compilation, links: Index, drawings: Mapping[str, Mapping[str, str]]) -> None:
        self.fact = item
        self.link = links.compilation(*item.key)
        self.place = links.place(item.location)
        self.name = self.place.function or item.name
        self.seconds = item.whole_seconds
        spent = Counter[str](item.exclusive)
        for backward in item.backward:
            spent.update(backward.exclusive)
        self.phases = ", ".join(f"{phase_words(name)} {duration(taken)}" for name, taken in spent.items() if taken)
        self.met = first(links.met.get(item.key, []), MAX_SEE)
        drawn = ((name, places.get(self.link.anchor)) for name, places in drawings.items())
        self.see = [*self.met.items, *(Link(name, anchor) for name, anchor in drawn if anchor is not None)]


class CompilationsView:
    """One row a compilation. `drawings` tells for each drawing of the page, by its name, where it has which one."""

    def __init__(self, report: Report, links: Index, drawings: Mapping[str, Mapping[str, str]]) -> None:
        self.shown = first(report.compilations, MAX_COMPILATIONS).map(
            lambda item: CompilationView(item, links, drawings)
        )
        self.open = len(self.shown.items) <= MAX_OPEN
        self.several_processes = len({item.process for item in report.compilations}) > 1


def files_view(report: Report, anchors: Anchors) -> Listed[tuple[str, TracedFile]]:
    """The files that the compiler read, each with its anchor; the user's own first."""
    origins = ("user", "library", "torch")
    ordered = sorted(report.traced_files, key=lambda item: origins.index(item.origin))
    return first(ordered, MAX_FILES).map(lambda item: (anchors.claim(f"file-{short_path(item.path)}"), item))


class ProcessRow:
    """What one process compiled, as texts."""

    def __init__(self, report: Report, process: Process, anchors: Anchors) -> None:
        number = process.process
        compiled = [each for each in report.compilations if each.process == number]
        known = [seconds for each in compiled if (seconds := each.whole_seconds) is not None]
        self.anchor = anchors.claim(f"process-{number}")
        self.name = f"{number} (pid {process.pid})"
        self.rank = "" if process.rank is None else str(process.rank)
        self.compilations = f"{len(compiled):,}"
        self.eager = f"{sum(each.status in ('eager', 'failed') for each in compiled):,}"
        self.breaks = f"{sum(number in each.processes for each in report.graph_breaks):,}"
        self.recompiles = f"{sum(each.process == number for each in report.recompiles):,}"
        self.ops = f"{sum(each.ops or 0 for each in compiled):,}"
        self.seconds = duration(sum(known)) if known else ""
        counts = [(name, count) for each in compiled for name, count in each.cache.items() if isinstance(count, int)]
        hits, misses = (sum(count for name, count in counts if name.endswith(end)) for end in ("hit", "miss"))
        self.cache = f"{count_of(hits, 'hit')}, {count_of(misses, 'miss', 'misses')}" if hits or misses else ""
        self.command = shlex.join(process.command)


class ProcessesView:
    """A row for each process, in order of process, none for a single one; `ranks`, `commands`: some process has one."""

    def __init__(self, report: Report, anchors: Anchors) -> None:
        every = report.processes if len(report.processes) > 1 else []
        self.shown = first(every, MAX_PROCESSES).map(lambda process: ProcessRow(report, process, anchors))
        self.ranks = any(row.rank for row in self.shown.items)
        self.commands = any(row.command for row in self.shown.items)
