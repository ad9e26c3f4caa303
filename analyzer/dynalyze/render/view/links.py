"""Anchors of the page, links between its parts, and how a place in the code is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from dynalyze.render.text.report import compilation_name, line_words
from dynalyze.report import CompilationKey, Graph, GraphBreak, LineKey, Location, Recompile, Report
from dynalyze.text.escape import clipped

Item = TypeVar("Item")
Other = TypeVar("Other")

# How many facts of a kind the page shows.
MAX_BREAKS = 500
MAX_RECOMPILES = 300
MAX_COMPILATIONS = 300
MAX_GRAPHS = 100
MAX_SKIPPED = 200
MAX_SIZES = 200
MAX_FINDINGS = 200
MAX_LINES = 2000
"""Lines of source, all files together."""

_LONGEST_TITLE = 200
_MOST_FIXES = 5
_NOT_IN_ANCHORS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Link:
    """A link to a part of this page; `anchor` is "" where that part is not shown. `title` says what stands there."""

    text: str
    anchor: str
    title: str = ""


@dataclass(frozen=True)
class Place:
    """A line of code as people write it; `full` is the whole path, `anchor` where the page shows the line."""

    text: str
    full: str
    function: str
    anchor: str = ""

    @property
    def short(self) -> Place:
        """The place by its file's name alone, for a narrow column."""
        return replace(self, text=self.text.rpartition("/")[2])


@dataclass(frozen=True)
class Listed(Generic[Item]):
    """The items of a list that stand on the page; `total` is the length of the whole list."""

    items: Sequence[Item]
    total: int

    @property
    def omitted(self) -> int:
        return self.total - len(self.items)

    def map(self, view: Callable[[Item], Other]) -> Listed[Other]:
        """The same with a view of each item in its place."""
        return Listed([view(item) for item in self.items], self.total)


def first(items: Sequence[Item], limit: int) -> Listed[Item]:
    return Listed(items[:limit], len(items))


class Anchors:
    """Hands out the anchors of one page: valid, and each of them once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def claim(self, wanted: str) -> str:
        """The wanted anchor, changed only where it is not valid or already used."""
        stem = _NOT_IN_ANCHORS.sub("-", wanted)[:60].strip("-") or "part"
        anchor, number = stem, 2
        while anchor in self._taken:
            anchor, number = f"{stem}-{number}", number + 1
        self._taken.add(anchor)
        return anchor


class Index:
    """Where the first so many facts of each kind stand on the page. Facts that the page leaves out have no entry.

    `met` are the graphs, breaks and recompiles of a compilation.
    """

    def __init__(self, report: Report, anchors: Anchors) -> None:
        facts = [fact.id for fact in report.graph_breaks[:MAX_BREAKS]]
        facts += [fact.id for fact in report.recompiles[:MAX_RECOMPILES]]
        facts += [fact.id for fact in report.graphs[:MAX_GRAPHS]]
        facts += [fact.id for fact in report.skipped_frames[:MAX_SKIPPED]]
        facts += [fact.id for fact in report.forced_sizes[:MAX_SIZES]]
        keys = dict.fromkeys(item.key for item in report.compilations[:MAX_COMPILATIONS])
        # There are thousands of lines: each has a short name.
        names = (
            ((file.path, line.line), f"L{number}-{line.line}")
            for number, file in enumerate(report.sources, 1)
            for line in file.lines
        )
        self.facts = {identity: anchors.claim(identity) for identity in dict.fromkeys(facts)}
        self.cards = [anchors.claim(f"fix-{rank}") for rank, _ in enumerate(report.findings[:MAX_FINDINGS], 1)]
        self.compilations = {key: anchors.claim(f"compile-{compilation_name(*key)}") for key in keys}
        self.lines: dict[LineKey, str] = {key: anchors.claim(name) for key, name in islice(names, MAX_LINES)}
        self._fixes: dict[str, list[Link]] = {}
        for rank, (finding, card) in enumerate(zip(report.findings, self.cards, strict=False), 1):
            link = Link(f"finding {rank}", card, clipped(finding.title, _LONGEST_TITLE))
            for identity in dict.fromkeys(finding.evidence):
                self._fixes.setdefault(identity, []).append(link)
        self._functions = {
            (file.path, line): each.name
            for file in report.sources
            for each in sorted(file.functions, key=lambda each: each.line)
            for line in range(each.line, min(each.last, each.line + MAX_LINES) + 1)
        }
        self.met: dict[CompilationKey, list[Link]] = {}
        met: list[Graph | GraphBreak | Recompile] = [*report.graphs, *report.graph_breaks, *report.recompiles]
        for fact in met:
            for compile_id in fact.compile_ids if isinstance(fact, GraphBreak) else [fact.compile_id]:
                link = Link(fact.id, self.facts.get(fact.id, ""))
                self.met.setdefault((fact.process, fact.epoch, compile_id), []).append(link)

    def fact(self, identity: str) -> Link:
        """A link to a break, a recompile, a graph or a compilation by its id."""
        return Link(identity, self.facts.get(identity) or self.compilations.get((0, 0, identity), ""))

    def compilation(self, process: int, epoch: int, compile_id: str) -> Link:
        key = (process, epoch, compile_id)
        return Link(compilation_name(*key), self.compilations.get(key, ""))

    def fix(self, identity: str) -> list[Link]:
        """The findings that say what to do about a fact, the most important one first."""
        return self._fixes.get(identity, [])[:_MOST_FIXES]

    def function(self, location: Location) -> str:
        """`Class.forward`, where a part of a function that was cut is known by its last name alone."""
        found = self._functions.get(location.at, "")
        return found if found.rpartition(".")[2] == location.function else location.function

    def place(self, location: Location) -> Place:
        """A place that leads to its line in the source view."""
        return replace(place(location), function=self.function(location), anchor=self.lines.get(location.at, ""))


def place(location: Location) -> Place:
    """`model.py:12`, with what is needed to find it."""
    return Place(line_words(location), location.file, location.function)


def safe_url(url: str) -> str:
    """The address where it is a plain web address, else ""."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""
