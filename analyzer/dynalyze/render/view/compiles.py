"""What the compiler did, and with what: compilations, functions left in eager, sizes, processes, files, modules."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Any

from dynalyze.render.text.report import count_of, duration, phase_words, short_path
from dynalyze.render.view.links import MAX_COMPILATIONS, MAX_SIZES, MAX_SKIPPED, Anchors, Index, Listed, first
from dynalyze.report import (
    Candidate,
    CandidateReason,
    Compilation,
    ForcedSize,
    Location,
    Process,
    Report,
    SkippedFrame,
    TracedFile,
)
from dynalyze.report.models import ModuleFacts
from dynalyze.text.escape import clipped

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

    def __init__(self, item: Compilation, links: Index) -> None:
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


class CompilationsView:
    def __init__(self, report: Report, links: Index) -> None:
        self.shown = first(report.compilations, MAX_COMPILATIONS).map(lambda item: CompilationView(item, links))
        self.open = len(self.shown.items) <= MAX_OPEN
        self.several_processes = len({item.process for item in report.compilations}) > 1


def files_view(report: Report, anchors: Anchors) -> Listed[tuple[str, TracedFile]]:
    """The files that the compiler read, each with its anchor; the user's own first."""
    origins = ("user", "library", "torch")
    ordered = sorted(report.traced_files, key=lambda item: origins.index(item.origin))
    return first(ordered, MAX_FILES).map(lambda item: (anchors.claim(f"file-{short_path(item.path)}"), item))


class ProcessRow:
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


MAX_CANDIDATES = 100
_REASONS: dict[CandidateReason, str] = {
    "no_parameters": "It has no parameters of its own, like a loss or a data transform.",
    "backward": "Called inside backward, where torch recomputes what a checkpoint dropped.",
    "worker": "Called in a worker of a DataLoader.",
    "torchscript": "torch.jit compiled it already.",
    "part_of_compiled": "A part of a compiled module, called directly: compiling the whole does not cover that call.",
    "not_chosen": "Not among what --compile names.",
    "raised": "It raised under compile, and ran in eager from then on",
    "too_many": "One of too many modules: only the first 64 were compiled.",
    "method": "A method that calls modules in place of forward: torch.compile of the module leaves it in eager.",
    "function": "A function that calls modules.",
    "constructor": "Its constructor called parts of it, before the whole could be compiled.",
}


class CandidateView:
    """A module, method or function that could have been compiled; `option` is what compiles it."""

    def __init__(self, number: int, item: Candidate, links: Index, anchors: Anchors) -> None:
        why = _REASONS.get(item.reason, "")
        name, class_name = clipped(item.name, 200), clipped(item.class_name, 200)
        self.fact = item
        self.anchor = anchors.claim(f"candidate-{number}")
        self.name = name or class_name
        self.class_name = class_name if name else ""
        self.place = links.place(item.location) if item.location is not None else None
        self.why = f"{why}: {clipped(item.error, 300)}" if item.reason == "raised" and item.error else why
        self.option = f"--compile {name}" if name and not item.compiled and item.reason != "raised" else ""


class CandidatesView:
    """One row a module, method or function; `regions` are the parts that no graph break reaches, with their names."""

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        numbered = list(enumerate(report.candidates, 1))
        self.shown = first(numbered, MAX_CANDIDATES).map(lambda each: CandidateView(*each, links, anchors))
        named = ((f"{each.root or 'model'}.{each.pattern or each.path}", each) for each in report.regions)
        self.regions = [(clipped(f"{name}{_times(region.count)}", 200), region) for name, region in named]


def _times(count: int) -> str:
    return f" × {count}" if count > 1 else ""


MAX_MODULES = 50
_MAX_NOTE = 300


class ModuleView:
    """A module; `about` is what else is known of it, in short phrases."""

    def __init__(self, module: ModuleFacts, links: Index, anchors: Anchors) -> None:
        dtypes = ", ".join(f"{number:,} {dtype}" for dtype, number in module.parameters.items())
        devices = ", ".join(module.devices)
        self.anchor = anchors.claim(f"module-{module.id}")
        self.name = f"{clipped(module.class_name, 200) or 'a module'}{_times(module.count)}"
        self.place = links.place(Location(module.file, module.line)) if module.file else None
        self.options = ", ".join(f"{name}={_word(value)}" for name, value in module.options.items())
        self.parameters = f"{dtypes} on {devices}" if dtypes and devices else dtypes or "none"
        self.mode = "training" if module.training else "evaluation"
        self.about = _about(module)


class ModulesView:
    """One row a module, and the settings of torch that change what compile does."""

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        self.shown = first(report.modules, MAX_MODULES).map(lambda module: ModuleView(module, links, anchors))
        self.settings = [(name, _word(value)) for name, value in report.settings.items()]


def _about(module: ModuleFacts) -> list[str]:
    wrappers, adapters = ", then ".join(module.wrappers), module.adapters
    phrases = [
        f"{module.family} of transformers" if module.family else "",
        f"attention: {module.attention}" if module.attention else "",
        f"quantised with {module.quantization}" if module.quantization else "",
        f"cache: {module.cache}" if module.cache else "",
        f"{'inside' if module.inside_wrapper else 'compiled together with'} {wrappers}" if wrappers else "",
        f"{module.compiled_parts:,} of its parts are compiled by themselves" if module.compiled_parts else "",
    ]
    phrases += [f"{group.count:,} {group.library} {group.kind}" for group in module.layers]
    if adapters is not None:
        merged = ", merged" if adapters.merged else ""
        phrases.append(f"{adapters.library} adapters: {', '.join(adapters.names) or 'none'}{merged}")
    return [text for text in phrases if text] + [clipped(note, _MAX_NOTE) for note in module.notes]


def _word(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, list | tuple) else clipped(str(value), 200)
