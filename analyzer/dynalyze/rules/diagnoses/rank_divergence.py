"""Ranks of one job that compiled the same function differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

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
            caches.update({name: count for name, count in each.cache.items() if isinstance(count, int)})
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
        found = _finding(location, {rank: sides.get(rank, _Side()) for rank in everyone})
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


def _finding(location: Location, sides: dict[int, _Side]) -> Finding | None:
    told = {rank: side.aspects() for rank, side in sides.items()}
    first = next(iter(told.values()))
    differing = [name for name in first if len({aspects[name] for aspects in told.values()}) > 1]
    if not differing:
        return None
    name = location.function or "a function"
    evidence = dict.fromkeys(fact for side in sides.values() for fact in (*sorted(side.breaks), *side.recompiles))
    return RULE.finding(
        title=f"Ranks differ in {name}: {_sides(differing[0], told)}",
        location=location,
        evidence=list(evidence),
        advice=" ".join([*(f"{_sides(each, told).capitalize()}." for each in differing[1:]), _ADVICE]),
    )


def _sides(aspect: str, told: dict[int, dict[str, str]]) -> str:
    """ "compilations: 1 on rank 0; 2 on ranks 1, 2", the commonest first."""
    by_value: dict[str, list[int]] = {}
    for rank, aspects in told.items():
        by_value.setdefault(aspects[aspect], []).append(rank)
    sides = sorted(by_value.items(), key=lambda pair: -len(pair[1]))
    shown = [f"{value} on {_named(ranks)}" for value, ranks in sides[:_MOST_SIDES]]
    left = len(sides) - len(shown)
    return f"{aspect}: {'; '.join(shown)}" + (f"; and {left} more kinds" if left else "")


def _named(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:_MOST_RANKS]))
    left = len(ranks) - _MOST_RANKS
    return f"ranks {shown}" + (f" and {left} more" if left > 0 else "")


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
