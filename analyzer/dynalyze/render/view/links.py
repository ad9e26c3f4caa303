"""Anchors of the page, links between its parts, and how a place in the code is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from dynalyze.report import Graph, GraphBreak, Location, Recompile, Report
from dynalyze.text.visible import clipped
from dynalyze.words.report import compilation_name, short_path

Item = TypeVar("Item")
MAX_SKIPPED = 200
"""Functions in the list of those that were left in eager without a graph break."""

MAX_SIZES = 200
"""Dynamic sizes that became constants."""

MAX_FINDINGS = 200
"""Cards of what to fix."""

CompilationKey = tuple[int, int, str]

_LONGEST_TITLE = 200
_MOST_FIXES = 5
_NOT_IN_ANCHORS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Link:
    """A link to a part of this page; `anchor` is "" where that part is not shown."""

    text: str
    anchor: str


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
class Shown:
    """How much of a list stands on the page."""

    shown: int
    total: int

    @property
    def omitted(self) -> int:
        return self.total - self.shown


@dataclass(frozen=True)
class Listed(Generic[Item]):
    """The facts of a section that stand on the page, as the report has them."""

    items: Sequence[Item]
    amount: Shown


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


@dataclass(frozen=True)
class Index:
    """Where the facts stand on the page. Facts that the page leaves out have no entry."""

    facts: dict[str, str]
    compilations: dict[CompilationKey, str]
    lines: dict[tuple[str, int], str] = field(default_factory=dict)
    cards: list[str] = field(default_factory=list)
    fixes: dict[str, list[Link]] = field(default_factory=dict)
    """What to do about a fact, by its id."""
    met: dict[CompilationKey, list[Link]] = field(default_factory=dict)
    """The graphs, breaks and recompiles of a compilation."""

    def fact(self, identity: str) -> Link:
        """A link to a break, a recompile, a graph or a compilation by its id."""
        anchor = self.facts.get(identity) or self.compilations.get((0, 0, identity), "")
        return Link(identity, anchor)

    def compilation(self, process: int, epoch: int, compile_id: str) -> Link:
        """A link to a compilation."""
        key = (process, epoch, compile_id)
        return Link(compilation_name(*key), self.compilations.get(key, ""))

    def fix(self, identity: str) -> list[Link]:
        """The findings that tell what to do about a fact, the most important one first."""
        return self.fixes.get(identity, [])[:_MOST_FIXES]

    def place(self, location: Location) -> Place:
        """A place that leads to its line in the source view."""
        return replace(place(location), anchor=self.lines.get((location.file, location.line), ""))


def index(
    report: Report, anchors: Anchors, breaks: int, recompiles: int, compilations: int, graphs: int = 0, lines: int = 0
) -> Index:
    """Give an anchor to each fact among the first so many of its kind."""
    facts = [fact.id for fact in report.graph_breaks[:breaks]] + [fact.id for fact in report.recompiles[:recompiles]]
    facts += [fact.id for fact in report.graphs[:graphs]]
    facts += [fact.id for fact in report.skipped_frames[:MAX_SKIPPED]]
    facts += [fact.id for fact in report.forced_sizes[:MAX_SIZES]]
    keys = [(item.process, item.epoch, item.compile_id) for item in report.compilations[:compilations]]
    named = {identity: anchors.claim(identity) for identity in dict.fromkeys(facts)}
    cards = [anchors.claim(f"fix-{rank}") for rank, _ in enumerate(report.findings[:MAX_FINDINGS], 1)]
    return Index(
        facts=named,
        compilations={key: anchors.claim(f"compile-{compilation_name(*key)}") for key in dict.fromkeys(keys)},
        lines={key: anchors.claim(name) for key, name in islice(_lines(report), lines)},
        cards=cards,
        fixes=_fixes(report, cards),
        met=_met(report, named),
    )


def _fixes(report: Report, cards: Sequence[str]) -> dict[str, list[Link]]:
    found: dict[str, list[Link]] = {}
    for rank, (finding, card) in enumerate(zip(report.findings, cards, strict=False), 1):
        for identity in dict.fromkeys(finding.evidence):
            found.setdefault(identity, []).append(Link(f"{rank}. {clipped(finding.title, _LONGEST_TITLE)}", card))
    return found


def _met(report: Report, named: dict[str, str]) -> dict[CompilationKey, list[Link]]:
    found: dict[CompilationKey, list[Link]] = {}
    facts: list[tuple[Graph | GraphBreak | Recompile, Iterable[str]]] = [
        *((each, (each.compile_id,)) for each in report.graphs),
        *((each, each.compile_ids) for each in report.graph_breaks),
        *((each, (each.compile_id,)) for each in report.recompiles),
    ]
    for fact, compile_ids in facts:
        for compile_id in compile_ids:
            link = Link(fact.id, named.get(fact.id, ""))
            found.setdefault((fact.process, fact.epoch, compile_id), []).append(link)
    return found


def _lines(report: Report) -> Iterator[tuple[tuple[str, int], str]]:
    """Every line of source with a short name for it: there are thousands."""
    return (
        ((file.path, line.line), f"L{number}-{line.line}")
        for number, file in enumerate(report.sources, 1)
        for line in file.lines
    )


def place(location: Location) -> Place:
    """`model.py:12`, with what is needed to find it."""
    return Place(f"{short_path(location.file)}:{location.line}", location.file, location.function)


def shown(items: Sequence[Item], limit: int) -> tuple[Sequence[Item], Shown]:
    """The first items up to a limit, and how many that is of all."""
    return items[:limit], Shown(min(len(items), limit), len(items))


def safe_url(url: str) -> str:
    """The address where it is a plain web address, else ""."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""
