"""Ranks of one job that compiled the same function differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from dynalyze.report import Compilation, CompilationStatus, Finding, Location, Report
from dynalyze.rules.rule import Rule

_MOST_SIDES = 4
_MOST_RANKS = 8
_ADVICE = (
    "Give every rank the same shapes and the same values here. Ranks that do not compile at the same moment wait for "
    "each other in the next collective, until its timeout ends the job."
)

_STATUSES: dict[CompilationStatus, str] = {
    "compiled": "compiled", "broken": "compiled in part", "eager": "left in eager", "failed": "failed",
}  # fmt: skip
_Function = tuple[str, int]


@dataclass
class _Side:
    """What one rank did with one function."""

    compilations: list[Compilation] = field(default_factory=list)
    breaks: set[str] = field(default_factory=set)
    recompiles: list[str] = field(default_factory=list)

    def aspects(self) -> dict[str, str]:
        """What is compared, in words; equal words on all ranks are no difference."""
        statuses = Counter(_STATUSES[each.status] for each in self.compilations)
        ops = [str(each.ops) for each in self.compilations if each.ops]
        caches = Counter[str]()
        for each in self.compilations:
            caches.update(each.cache)
        return {
            "compilations": str(len(self.compilations)),
            "recompiles": str(len(self.recompiles)),
            "graph breaks": str(len(self.breaks)),
            "outcomes": _counted(statuses),
            "operations in graphs": ", ".join(ops) or "none",
            "cache": _counted(caches),
        }


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    ranks = {process.process: process.rank for process in report.processes if process.rank is not None}
    everyone = sorted(set(ranks.values()))
    if len(everyone) < 2:
        return
    functions = _by_function(report, ranks)
    told: set[tuple[str, str]] = set()
    for location, sides in functions.values():
        found = _finding(location, sides, everyone)
        # The part of a function after a graph break has an entry of its own: one finding is enough for both.
        name = (location.file, location.function)
        if found is not None and not (name in told and _only_resumes(sides)):
            told.add(name)
            yield 350, found


def _by_function(report: Report, ranks: dict[int, int]) -> dict[_Function, tuple[Location, dict[int, _Side]]]:
    """The location of each compiled function, and what each rank did with it."""
    functions: dict[_Function, tuple[Location, dict[int, _Side]]] = {}
    compiled: dict[tuple[int, int, str], _Side] = {}
    for each in report.compilations:
        rank = ranks.get(each.process)
        if rank is None:
            continue
        _, sides = functions.setdefault((each.location.file, each.location.line), (each.location, {}))
        side = sides.setdefault(rank, _Side())
        side.compilations.append(each)
        compiled[each.process, each.epoch, each.compile_id] = side
    for recompile in report.recompiles:
        side_of = compiled.get((recompile.process, recompile.epoch, recompile.compile_id))
        if side_of is not None:
            side_of.recompiles.append(recompile.id)
    for found in report.graph_breaks:
        owner = compiled.get((found.process, found.epoch, next(iter(found.compile_ids), "")))
        if owner is not None:
            place = owner.compilations[0].location
            _, sides = functions[place.file, place.line]
            for rank in {ranks[process] for process in found.processes if process in ranks}:
                sides.setdefault(rank, _Side()).breaks.add(found.id)
    return functions


def _only_resumes(sides: dict[int, _Side]) -> bool:
    return all(each.resumes for side in sides.values() for each in side.compilations)


def _finding(location: Location, sides: dict[int, _Side], everyone: list[int]) -> Finding | None:
    told = _kinds(sides, everyone)
    differing = [name for name in told[0].aspects if len({kind.aspects[name] for kind in told}) > 1]
    if not differing:
        return None
    name = location.function or "a function"
    known = [sides[rank] for rank in sorted(sides)]
    evidence = dict.fromkeys(fact for side in known for fact in (*sorted(side.breaks), *side.recompiles))
    return RULE.finding(
        title=f"Ranks differ in {name}: {_sides(differing[0], told)}",
        location=location,
        evidence=list(evidence),
        advice=" ".join([*(f"{_sides(each, told).capitalize()}." for each in differing[1:]), _ADVICE]),
    )


@dataclass
class _Kind:
    """Ranks that did the same: how many, and the first of them."""

    aspects: dict[str, str]
    count: int
    first: list[int]

    @property
    def named(self) -> str:
        if self.count == 1:
            return f"rank {self.first[0]}"
        left = self.count - len(self.first)
        return f"ranks {', '.join(map(str, self.first))}" + (f" and {left} more" if left > 0 else "")


def _kinds(sides: dict[int, _Side], everyone: list[int]) -> list[_Kind]:
    """The ranks by what they did. Those that never came here are one kind: there may be very many."""
    found: dict[tuple[str, ...], _Kind] = {}
    for rank in sorted(sides):
        aspects = sides[rank].aspects()
        _merge(found.setdefault(tuple(aspects.values()), _Kind(aspects, 0, [])), 1, [rank])
    if len(sides) < len(everyone):
        absent = islice((rank for rank in everyone if rank not in sides), _MOST_RANKS)
        aspects = _Side().aspects()
        kind = found.setdefault(tuple(aspects.values()), _Kind(aspects, 0, []))
        _merge(kind, len(everyone) - len(sides), absent)
    return list(found.values())


def _merge(kind: _Kind, count: int, first: Iterable[int]) -> None:
    kind.count += count
    kind.first = sorted([*kind.first, *first])[:_MOST_RANKS]


def _sides(aspect: str, told: list[_Kind]) -> str:
    """ "compilations: 1 on rank 0; 2 on ranks 1, 2", the commonest first."""
    by_value: dict[str, _Kind] = {}
    for kind in told:
        value = kind.aspects[aspect]
        _merge(by_value.setdefault(value, _Kind(kind.aspects, 0, [])), kind.count, kind.first)
    sides = sorted(by_value.items(), key=lambda pair: (-pair[1].count, pair[1].first))
    shown = [f"{value} on {kind.named}" for value, kind in sides[:_MOST_SIDES]]
    left = len(sides) - len(shown)
    return f"{aspect}: {'; '.join(shown)}" + (f"; and {left} more kinds" if left else "")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


RULE = Rule(
    id="rank-divergence",
    title="Ranks compiled the same function differently",
    severity="warning",
    description=(
        "The ranks of a distributed job differ in how often they compiled a function, in its graph breaks, its "
        "recompiles, the size of its graphs, or in what their caches held. Ranks that run the same code on purpose "
        "should not: one that still compiles keeps all others waiting. Stages of a pipeline differ by design."
    ),
    passed="No two ranks compiled a function differently.",
    judge=_judge,
)
