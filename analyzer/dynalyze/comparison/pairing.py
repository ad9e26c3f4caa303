"""Pairs up the facts of two reports: by keys, the strictest first, and among equals by the nearest line."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dynalyze.comparison.places import Places, bare
from dynalyze.report import Location

Fact = TypeVar("Fact")

_COLUMNS = 10_000
"""More than the columns of a line: a line away is farther than any column of the same line."""


@dataclass(frozen=True)
class Entry(Generic[Fact]):
    """A fact with its place in comparable terms."""

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


Key = Callable[[Entry[Fact]], Hashable]
"""What must agree; None for an entry that cannot be matched this way."""


def entry(fact: Fact, location: Location, places: Places) -> Entry[Fact]:
    """A fact, placed."""
    return Entry(
        fact=fact,
        file=places.file(location),
        function=places.function(location),
        line=location.line,
        column=min(location.column or 0, _COLUMNS - 1),
        offset=places.offset(location),
        code=location.code.strip() if location.code is not None else None,
    )


def pair_up(
    before: Sequence[Entry[Fact]], after: Sequence[Entry[Fact]], keys: Sequence[tuple[Key[Fact], Key[Fact]]]
) -> list[tuple[Fact | None, Fact | None]]:
    """Match each fact at most once. What is gone comes last; the rest keeps the order of the second report.

    `keys` are tried in turn on what is still unmatched; each is a pair, one key for either side.
    """
    partner: dict[int, int] = {}
    matched: set[int] = set()
    for key, other_key in keys:
        groups = _grouped(before, key, matched)
        for name, theirs in _grouped(after, other_key, set(partner)).items():
            for one, other in _nearest(groups.get(name, []), theirs, before, after):
                partner[other] = one
                matched.add(one)
    pairs: list[tuple[Fact | None, Fact | None]] = [
        (before[partner[at]].fact if at in partner else None, item.fact) for at, item in enumerate(after)
    ]
    return pairs + [(item.fact, None) for at, item in enumerate(before) if at not in matched]


def _grouped(entries: Sequence[Entry[Fact]], key: Key[Fact], done: set[int]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for at, item in enumerate(entries):
        if at not in done and (name := key(item)) is not None:
            groups.setdefault(name, []).append(at)
    return groups


def _nearest(
    ours: list[int], theirs: list[int], before: Sequence[Entry[Fact]], after: Sequence[Entry[Fact]]
) -> list[tuple[int, int]]:
    """Match as many as there are on the smaller side so that lines move the least in all."""
    if not ours or not theirs:
        return []
    everything = [*(before[at] for at in ours), *(after[at] for at in theirs)]
    counted = all(item.offset is not None for item in everything)
    one = sorted((_position(before[at], counted), at) for at in ours)
    other = sorted((_position(after[at], counted), at) for at in theirs)
    if len(one) <= len(other):
        return [(one[i][1], other[j][1]) for i, j in _assignment([p for p, _ in one], [p for p, _ in other])]
    return [(one[j][1], other[i][1]) for i, j in _assignment([p for p, _ in other], [p for p, _ in one])]


def _position(item: Entry[Fact], counted: bool) -> int:
    line = item.offset if counted and item.offset is not None else item.line
    return line * _COLUMNS + item.column


def _assignment(few: list[int], many: list[int]) -> list[tuple[int, int]]:
    """The cheapest way to give each of `few` one of `many`; both are sorted.

    On a line a cheapest matching never crosses, so `few[i]` goes to `many[i + skipped]` with `skipped` never
    falling: `costs[i][s]` is the least cost of the first i of them with at most s skipped.
    """
    spare = len(many) - len(few)
    costs = [[0] * (spare + 1)]
    for i, position in enumerate(few):
        row: list[int] = []
        for skipped in range(spare + 1):
            cost = costs[i][skipped] + abs(position - many[i + skipped])
            row.append(min(cost, row[-1]) if row else cost)
        costs.append(row)
    pairs, skipped = [], spare
    for i in range(len(few), 0, -1):
        while skipped and costs[i][skipped - 1] == costs[i][skipped]:
            skipped -= 1
        pairs.append((i - 1, i - 1 + skipped))
    return pairs[::-1]
