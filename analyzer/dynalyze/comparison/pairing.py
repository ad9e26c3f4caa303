"""Pairs up the facts of two reports: files of two checkouts, functions by full name, the nearest of equal lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, Generic, Protocol, TypeVar

from dynalyze.comparison.types import Direction
from dynalyze.report import Location, Report

_RESUMED = "torch_dynamo_resume_in_"

Item = TypeVar("Item", str, int)


def files_of(report: Report) -> set[str]:
    places = [item.location for item in report.graph_breaks] + [item.location for item in report.recompiles]
    places += [item.location for item in report.compilations]
    return {place.file for place in places} | {item.path for item in report.traced_files}


def match_files(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """The second report's names for files of the first.

    Equal paths match; others below the deepest common folder of each report, then by the longest common end of their
    paths, so that two checkouts, or two machines, can be compared.
    """
    names, others = set(before), set(after)
    left, right = names - others, others - names
    roots = _root(names), _root(others)
    alike = (
        (_unlike(one, other, roots), one, other)
        for one in left
        for other in right
        if PurePosixPath(one).name == PurePosixPath(other).name
    )
    return {name: name for name in names & others} | _nearest_first(alike)


def _nearest_first(ranked: Iterable[tuple[Any, Item, Item]]) -> dict[Item, Item]:
    """The partner of each item, from how far apart two are: the nearest two pair first, and each item once."""
    partners: dict[Item, Item] = {}
    taken: set[Item] = set()
    for _, one, other in sorted(ranked):
        if one not in partners and other not in taken:
            partners[one] = other
            taken.add(other)
    return partners


def _unlike(one: str, other: str, roots: tuple[int, int]) -> tuple[bool, int]:
    """A key that sorts pairs of files, the likeliest first."""
    parts, others = _parts(one), _parts(other)
    relative = parts[roots[0] :] == others[roots[1] :]
    return not relative, -_shared(parts[::-1], others[::-1])


def _root(files: Iterable[str]) -> int:
    """How many folders the paths of the user's own files share."""
    every = [_parts(file) for file in files if file.startswith(("/", "~"))]
    return _shared(*(parts[:-1] for parts in every if not {"site-packages", "dist-packages"} & set(parts)))


def _shared(*paths: tuple[str, ...]) -> int:
    """How many leading parts are the same in all."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def _parts(file: str) -> tuple[str, ...]:
    return PurePosixPath(file).parts or ("",)


class ComparableReport:
    """A report, with its locations in terms that another one shares; `renamed` has the other's names of files."""

    def __init__(self, report: Report, renamed: Mapping[str, str]) -> None:
        self.report = report
        self._renamed = renamed
        self._starts: dict[tuple[str, str], list[tuple[int, str]]] = {}
        # Of two names for one definition the longer one counts: it has the class.
        for file, line, name in sorted(set(_definitions(report)), key=lambda each: (each[1], len(each[2]), each)):
            self._starts.setdefault((file, bare(name)), []).append((line, name))

    def file(self, location: Location) -> str:
        return self._renamed.get(location.file, location.file)

    def function(self, location: Location) -> str:
        """The function with its class, where a definition above the line is known."""
        start = self._start(location)
        return start[1] if start else location.function

    def offset(self, location: Location) -> int | None:
        """The line counted from the function's first; None where that is not known."""
        start = self._start(location)
        return location.line - start[0] if start else None

    def _start(self, location: Location) -> tuple[int, str] | None:
        starts = self._starts.get((location.file, bare(location.function)), [])
        at = bisect_right(starts, location.line, key=lambda start: start[0])
        return starts[at - 1] if at else None


def bare(function: str) -> str:
    """The name of a function without its class."""
    return function.rpartition(".")[2]


def _definitions(report: Report) -> Iterator[tuple[str, int, str]]:
    for file in report.traced_files:
        for function in file.functions:
            if _RESUMED not in function.name:
                yield file.path, function.line, function.name
    for item in report.compilations:
        if not item.resumes and item.function:
            yield item.location.file, item.location.line, item.function


Fact = TypeVar("Fact")

_COLUMNS = 10_000  # More than the columns of a line: a line away is farther than any column of the same line.


@dataclass(frozen=True)
class ComparableFact(Generic[Fact]):
    """A fact with its place in terms that both reports share."""

    fact: Fact
    file: str
    function: str
    line: int
    column: int
    offset: int | None
    code: str | None

    @property
    def bare_function(self) -> str:
        return bare(self.function)


Key = Callable[[ComparableFact[Fact]], Hashable]  # What must agree; None for an entry that cannot be matched this way.


class Break(Protocol):
    """A graph break of a report, or of a row of a sweep."""

    @property
    def gb_id(self) -> str | None: ...

    @property
    def gb_type(self) -> str: ...


Broken = TypeVar("Broken", bound=Break)
_Rank = TypeVar("_Rank", int, tuple[int, int])


def direction(before: _Rank, after: _Rank) -> Direction:
    """How a rank, from good to bad, has changed."""
    return "same" if after == before else "worse" if after > before else "better"


def cause_of(item: ComparableFact[Broken]) -> str:
    """PyTorch's id, which stays while its wording changes from version to version; else the type."""
    return item.fact.gb_id or item.fact.gb_type


def type_of(item: ComparableFact[Broken]) -> str:
    """The cause for a version of PyTorch that gives no id."""
    return item.fact.gb_type


def by_code(cause: Key[Broken], *, bare: bool = False) -> Key[Broken]:
    """The line of code, in its file and function, or in the function without its class."""

    def key(item: ComparableFact[Broken]) -> Hashable:
        function = item.bare_function if bare else item.function
        return None if item.code is None else (cause(item), item.file, function, item.code)

    return key


def entry(fact: Fact, location: Location, places: ComparableReport) -> ComparableFact[Fact]:
    return ComparableFact(
        fact=fact,
        file=places.file(location),
        function=places.function(location),
        line=location.line,
        column=min(location.column or 0, _COLUMNS - 1),
        offset=places.offset(location),
        code=location.code.strip() if location.code is not None else None,
    )


def pair_up(
    before: Sequence[ComparableFact[Fact]],
    after: Sequence[ComparableFact[Fact]],
    keys: Sequence[Key[Fact]],
    places: Sequence[Key[Fact]] = (),
) -> list[tuple[Fact | None, Fact | None]]:
    """Pairs of facts with equal keys, each fact once, in the order of the second report; what is gone comes last.

    `keys` are tried in turn on what is still unmatched, from strict to lenient; then `places`, where one or both have
    no code.
    """
    partner: dict[int, int] = {}
    matched: set[int] = set()
    tried = [(key, key) for key in keys]
    for place in places:
        without = _if_no_code(place)
        tried += [(without, without), (without, place), (place, without)]
    for key, other_key in tried:
        groups = _grouped(before, key, matched)
        for name, theirs in _grouped(after, other_key, set(partner)).items():
            for one, other in _nearest(groups.get(name, []), theirs, before, after).items():
                partner[other] = one
                matched.add(one)
    pairs: list[tuple[Fact | None, Fact | None]] = [
        (before[partner[at]].fact if at in partner else None, item.fact) for at, item in enumerate(after)
    ]
    return pairs + [(item.fact, None) for at, item in enumerate(before) if at not in matched]


def _if_no_code(key: Key[Fact]) -> Key[Fact]:
    return lambda item: key(item) if item.code is None else None


def _grouped(entries: Sequence[ComparableFact[Fact]], key: Key[Fact], done: set[int]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for at, item in enumerate(entries):
        if at not in done and (name := key(item)) is not None:
            groups.setdefault(name, []).append(at)
    return groups


def _nearest(
    ours: list[int], theirs: list[int], before: Sequence[ComparableFact[Fact]], after: Sequence[ComparableFact[Fact]]
) -> dict[int, int]:
    """Pairs for all of the smaller side: in order where there are as many on both, else the nearest first."""
    counted = all(item.offset is not None for item in [*(before[at] for at in ours), *(after[at] for at in theirs)])
    one = sorted((_position(before[at], counted), at) for at in ours)
    other = sorted((_position(after[at], counted), at) for at in theirs)
    if len(one) == len(other):
        return {mine: his for (_, mine), (_, his) in zip(one, other, strict=True)}
    return _nearest_first((abs(here - there), mine, his) for here, mine in one for there, his in other)


def _position(item: ComparableFact[Fact], counted: bool) -> int:
    line = item.offset if counted and item.offset is not None else item.line
    return line * _COLUMNS + item.column
