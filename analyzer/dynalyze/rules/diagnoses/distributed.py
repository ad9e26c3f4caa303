"""Several processes: the order of wrapper and compile, and ranks that compiled differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from dynalyze.report import Compilation, CompilationStatus, Example, GraphBreak, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.report_queries import FROM_RUN, FROM_SETTINGS, compiled_at, ids
from dynalyze.rules.rule import Ranked, Rule, severity_of

_DDP = "https://docs.pytorch.org/docs/stable/notes/ddp.html"
_OPTIMIZE = "torch._dynamo.config.optimize_ddp"
_SHARDED = ("FSDPModule", "FullyShardedDataParallel")
_SHORT = {"DistributedDataParallel": "DDP", "FSDPModule": "fully_shard", "FullyShardedDataParallel": "FSDP"}
# The wrapper and its code, below torch's folder.
_WRAPPERS = {
    "DistributedDataParallel": "nn/parallel/distributed.py",
    "DataParallel": "nn/parallel/data_parallel.py",
    "FullyShardedDataParallel": "distributed/fsdp/",
    "FSDPModule": "distributed/fsdp/",
}


_DDP_EXAMPLE = Example(
    "model = DistributedDataParallel(model)\nmodel = torch.compile(model)\n",
    "model.compile()\nmodel = DistributedDataParallel(model)\n",
)


@Rule(
    title="torch.compile and a distributed wrapper in an unlucky order",
    rank=120,
    link="https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html",
    description="DistributedDataParallel and FSDP do work that a graph cannot hold. Compiled from outside, the graph "
    "breaks in their code; compiled inside of them, it does not, and DDP still splits it at its buckets. A model that "
    "ran compiled before DDP was put around it keeps a graph that is not split.",
    fix="With DDP call `model.compile()` and wrap the model then, before its first call. With FSDP compile each "
    "block before it is sharded.",
    example=_DDP_EXAMPLE,
    owns_breaks=lambda report: chain.from_iterable(_breaks_of_wrappers(report).values()),
    precedence=-2,
)
def distributed_order(report: Report) -> Iterator[Ranked]:
    for wrapper, breaks in _breaks_of_wrappers(report).items():
        yield _traced(wrapper, breaks, report.modules)
    for module in report.modules:
        if "DistributedDataParallel" not in module.wrappers:
            continue
        if module.compiled_unwrapped:
            yield distributed_order.finding(
                f"{module.class_name} was compiled before DDP was put around it",
                f"Put DistributedDataParallel around `{module.class_name}` before its first call: keep warm-up "
                "calls for the wrapped model, or call `torch._dynamo.reset()` after wrapping.",
                why="DDP exchanges gradients bucket by bucket while backward runs. The compiler splits the graph at "
                "these buckets only if DDP makes the call that is compiled. A graph that was compiled before is used "
                f"as it is: all gradients come at its end, and nothing is exchanged meanwhile. {FROM_RUN}",
                link=_DDP,
                location=compiled_at(module),
                evidence=[module.id],
            )
        elif report.settings.get(_OPTIMIZE) in (False, "no_optimization"):
            yield distributed_order.finding(
                f"{module.class_name} is not split at DDP's buckets: {_OPTIMIZE} is off",
                f"Leave `{_OPTIMIZE}` at True, unless you measured that the split costs more than it hides.",
                why="As one graph the backward pass gives all gradients at its end, so no exchange runs beside it. "
                f"{FROM_SETTINGS}",
                config=f"{_OPTIMIZE} = True",
                link=_DDP,
                rank=121,
                severity="info",
                location=compiled_at(module),
                evidence=[module.id, _OPTIMIZE],
            )


def _traced(wrapper: str, breaks: list[GraphBreak], modules: list[ModuleFacts]) -> Ranked:
    """torch.compile was given the wrapper, and broke in the wrapper's own code."""
    module = next(each for each in modules if wrapper in each.wrappers and not each.inside_wrapper)
    name, short = module.class_name or "model", _SHORT.get(wrapper, wrapper)
    number = "a graph break" if len(breaks) == 1 else f"{len(breaks)} graph breaks"
    example = _DDP_EXAMPLE
    action = f"Compile `{name}` first and wrap it then: `model.compile()`, then `{short}(model)`."
    if wrapper in _SHARDED:
        example = _SHARDED_EXAMPLE
        action = (
            f"Compile each block of `{name}`, those that are sharded by themselves, in place of the whole: "
            "`block.compile()` before it is sharded."
        )
    why = (
        "The hooks that gather and free the shards run in eager by design. Around a whole model they cut it at every "
        "block, and a loop over the blocks sends the function that holds it to eager; inside a block there are none."
    )
    if wrapper == "DistributedDataParallel":
        why = (
            "The compiler enters the wrapper's forward and meets logging and switches there that no graph can hold; "
            "with fullgraph=True it refuses. Nothing is lost by the other order: the graph is split at DDP's buckets "
            "whenever DDP makes the call, so that gradients still travel during backward."
        )
    return distributed_order.finding(
        f"torch.compile traces {short} around {name}: {number} in torch's own code",
        action,
        why=f"{why} {FROM_RUN}",
        example=example,
        severity=severity_of(breaks),
        location=compiled_at(module) or breaks[0].location,
        evidence=[*ids(breaks), module.id],
    )


_SHARDED_EXAMPLE = Example(
    "for block in model.layers:\n    fully_shard(block)\nfully_shard(model)\nmodel = torch.compile(model)\n",
    "for block in model.layers:\n    block.compile()\n    fully_shard(block)\nfully_shard(model)\n",
)


def _breaks_of_wrappers(report: Report) -> dict[str, list[GraphBreak]]:
    """The breaks that tracing a wrapper's own code led to, by the wrapper; only wrappers that stand inside of what
    was compiled.
    """
    wrapped = [module for module in report.modules if not module.inside_wrapper]
    kinds = dict.fromkeys(name for module in wrapped for name in module.wrappers if name in _WRAPPERS)
    found: dict[str, list[GraphBreak]] = {}
    for each in report.graph_breaks:
        kind = next((name for name in kinds if _is_in(each, _WRAPPERS[name])), None)
        if kind is not None:
            found.setdefault(kind, []).append(each)
    return found


def _is_in(found: GraphBreak, code: str) -> bool:
    """Whether the wrapper's code is the last of torch's on the way to the break, and no line of the program follows."""
    files = [place.file.replace("\\", "/") for place in found.stack]
    at = max((number for number, file in enumerate(files) if f"/torch/{code}" in file), default=None)
    plumbing = ("/contextlib.py", "/functools.py")
    return at is not None and all("/torch/" in file or file.endswith(plumbing) for file in files[at + 1 :])


_MOST_SIDES = 4
_MOST_RANKS = 8
_ADVICE = (
    "Give every rank the same shapes and the same values here. Ranks that do not compile at the same moment wait for "
    "each other in the next collective, until its timeout ends the job."
)

_STATUSES: dict[CompilationStatus, str] = {
    "compiled": "compiled", "broken": "compiled in part", "eager": "left in eager", "failed": "failed",
}  # fmt: skip


@dataclass
class _RankSide:
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


@Rule(
    title="Ranks compiled the same function differently",
    rank=350,
    description="The ranks of a distributed job differ in how often they compiled a function, in its graph breaks, its "
    "recompiles, the size of its graphs, or in what their caches held. Ranks that run the same code on purpose "
    "should not: one that still compiles keeps all others waiting. Stages of a pipeline differ by design.",
)
def rank_divergence(report: Report) -> Iterator[Ranked]:
    ranks = {process.process: process.rank for process in report.processes if process.rank is not None}
    everyone = sorted(set(ranks.values()))
    if len(everyone) < 2:
        return
    reported: set[tuple[str, str]] = set()
    for location, sides in _by_function(report, ranks):
        found = _finding(location, sides, everyone)
        # The part of a function after a graph break has an entry of its own: one finding is enough for both.
        name = (location.file, location.function)
        resumes = all(each.resumes for side in sides.values() for each in side.compilations)
        if found is not None and not (name in reported and resumes):
            reported.add(name)
            yield found


def _by_function(report: Report, ranks: dict[int, int]) -> Iterable[tuple[Location, dict[int, _RankSide]]]:
    functions: dict[tuple[str, int], tuple[Location, dict[int, _RankSide]]] = {}
    compiled: dict[tuple[int, int, str], _RankSide] = {}
    for each in report.compilations:
        rank = ranks.get(each.process)
        if rank is None:
            continue
        _, sides = functions.setdefault((each.location.file, each.location.line), (each.location, {}))
        side = sides.setdefault(rank, _RankSide())
        side.compilations.append(each)
        compiled[each.process, each.epoch, each.compile_id] = side
    for recompile in report.recompiles:
        side_of = compiled.get(recompile.key)
        if side_of is not None:
            side_of.recompiles.append(recompile.id)
    for found in report.graph_breaks:
        owner = compiled.get((found.process, found.epoch, next(iter(found.compile_ids), "")))
        if owner is not None:
            place = owner.compilations[0].location
            _, sides = functions[place.file, place.line]
            for rank in {ranks[process] for process in found.processes if process in ranks}:
                sides.setdefault(rank, _RankSide()).breaks.add(found.id)
    return functions.values()


def _finding(location: Location, sides: dict[int, _RankSide], everyone: list[int]) -> Ranked | None:
    kinds = _kinds(sides, everyone)
    differing = [name for name in kinds[0].aspects if len({kind.aspects[name] for kind in kinds}) > 1]
    if not differing:
        return None
    known = [sides[rank] for rank in sorted(sides)]
    return rank_divergence.finding(
        f"Ranks differ in {location.function or 'a function'}: {_sides(differing[0], kinds)}",
        " ".join([*(f"{_sides(each, kinds).capitalize()}." for each in differing[1:]), _ADVICE]),
        location=location,
        evidence=dict.fromkeys(fact for side in known for fact in (*sorted(side.breaks), *side.recompiles)),
    )


@dataclass
class _Kind:
    """Ranks that did the same: how many, and the first of them."""

    aspects: dict[str, str]
    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, count: int, first: Iterable[int]) -> None:
        self.count += count
        self.first = sorted([*self.first, *first])[:_MOST_RANKS]

    @property
    def named(self) -> str:
        left = self.count - len(self.first)
        more = f" and {left} more" if left > 0 else ""
        return f"rank{'' if self.count == 1 else 's'} {', '.join(map(str, self.first))}{more}"


def _kinds(sides: dict[int, _RankSide], everyone: list[int]) -> list[_Kind]:
    """The ranks by what they did. Those that never came here are one kind: there may be very many."""
    absent = list(islice((rank for rank in everyone if rank not in sides), _MOST_RANKS))
    groups = [(side, 1, [rank]) for rank, side in sorted(sides.items(), key=lambda pair: pair[0])]
    groups += [(_RankSide(), len(everyone) - len(sides), absent)] if absent else []
    found: dict[tuple[str, ...], _Kind] = {}
    for side, count, first in groups:
        aspects = side.aspects()
        found.setdefault(tuple(aspects.values()), _Kind(aspects)).add(count, first)
    return list(found.values())


def _sides(aspect: str, kinds: list[_Kind]) -> str:
    """ "compilations: 1 on rank 0; 2 on ranks 1, 2", the commonest first."""
    by_value: dict[str, _Kind] = {}
    for kind in kinds:
        by_value.setdefault(kind.aspects[aspect], _Kind(kind.aspects)).add(kind.count, kind.first)
    sides = sorted(by_value.items(), key=lambda pair: (-pair[1].count, pair[1].first))
    shown = [f"{value} on {kind.named}" for value, kind in sides[:_MOST_SIDES]]
    left = len(sides) - len(shown)
    return f"{aspect}: {'; '.join(shown)}" + (f"; and {left} more kinds" if left else "")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"
