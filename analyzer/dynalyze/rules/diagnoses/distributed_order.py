"""The order of torch.compile and the wrappers of distributed training."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, GraphBreak, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.report_queries import FROM_RUN, FROM_SETTINGS
from dynalyze.rules.rule import Rule, severity_of

_RANK = 120
_WHERE = "https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html"
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


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for wrapper, breaks in _breaks_of_wrappers(report).items():
        yield _RANK, _traced(wrapper, breaks, report.modules)
    for module in report.modules:
        if "DistributedDataParallel" not in module.wrappers:
            continue
        if module.compiled_unwrapped:
            yield _RANK, _too_early(module)
        elif report.settings.get(_OPTIMIZE) in (False, "no_optimization"):
            yield _RANK + 1, _not_split(module)


def _traced(wrapper: str, breaks: list[GraphBreak], modules: list[ModuleFacts]) -> Finding:
    """torch.compile was given the wrapper, and broke in the wrapper's own code."""
    module = next(each for each in modules if wrapper in each.wrappers and not each.inside_wrapper)
    name, short = module.class_name or "model", _SHORT.get(wrapper, wrapper)
    number = "a graph break" if len(breaks) == 1 else f"{len(breaks)} graph breaks"
    sharded = wrapper in _SHARDED
    return RULE.finding(
        title=f"torch.compile traces {short} around {name}: {number} in torch's own code",
        severity=severity_of(breaks),
        location=_place(module) or breaks[0].location,
        evidence=[*(each.id for each in breaks), module.id],
        advice=Advice(
            action=_blocks_first(name) if sharded else _model_first(name, short),
            why=f"{_why_traced(wrapper)} {FROM_RUN}",
            example=Example(*(_SHARDED_EXAMPLE if sharded else _DDP_EXAMPLE)),
            link=_WHERE,
        ),
    )


def _model_first(name: str, short: str) -> str:
    return f"Compile `{name}` first and wrap it then: `model.compile()`, then `{short}(model)`."


def _blocks_first(name: str) -> str:
    return (
        f"Compile each block of `{name}`, those that are sharded by themselves, in place of the whole: "
        "`block.compile()` before it is sharded."
    )


def _why_traced(wrapper: str) -> str:
    if wrapper == "DistributedDataParallel":
        return (
            "The compiler enters the wrapper's forward and meets logging and switches there that no graph can hold; "
            "with fullgraph=True it refuses. Nothing is lost by the other order: the graph is split at DDP's buckets "
            "whenever DDP makes the call, so that gradients still travel during backward."
        )
    return (
        "The hooks that gather and free the shards run in eager by design. Around a whole model they cut it at every "
        "block, and a loop over the blocks sends the function that holds it to eager; inside a block there are none."
    )


_DDP_EXAMPLE = (
    "model = DistributedDataParallel(model)\nmodel = torch.compile(model)\n",
    "model.compile()\nmodel = DistributedDataParallel(model)\n",
)
_SHARDED_EXAMPLE = (
    "for block in model.layers:\n    fully_shard(block)\nfully_shard(model)\nmodel = torch.compile(model)\n",
    "for block in model.layers:\n    block.compile()\n    fully_shard(block)\nfully_shard(model)\n",
)


def _too_early(module: ModuleFacts) -> Finding:
    return RULE.finding(
        title=f"{module.class_name} was compiled before DDP was put around it",
        location=_place(module),
        evidence=[module.id],
        advice=Advice(
            action=f"Put DistributedDataParallel around `{module.class_name}` before its first call: keep warm-up "
            "calls for the wrapped model, or call `torch._dynamo.reset()` after wrapping.",
            why=(
                "DDP exchanges gradients bucket by bucket while backward runs. The compiler splits the graph at these "
                "buckets only if DDP makes the call that is compiled. A graph that was compiled before is used as it "
                f"is: all gradients come at its end, and nothing is exchanged meanwhile. {FROM_RUN}"
            ),
            link=_DDP,
        ),
    )


def _not_split(module: ModuleFacts) -> Finding:
    return RULE.finding(
        title=f"{module.class_name} is not split at DDP's buckets: {_OPTIMIZE} is off",
        severity="info",
        location=_place(module),
        evidence=[module.id, _OPTIMIZE],
        advice=Advice(
            action=f"Leave `{_OPTIMIZE}` at True, unless you measured that the split costs more than it hides.",
            why=(
                "As one graph the backward pass gives all gradients at its end, so no exchange runs beside it. "
                f"{FROM_SETTINGS}"
            ),
            config=f"{_OPTIMIZE} = True",
            link=_DDP,
        ),
    )


def _place(module: ModuleFacts) -> Location | None:
    return Location(module.file, module.line) if module.file else None


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
    return at is not None and all(_is_plumbing(file) for file in files[at + 1 :])


def _is_plumbing(file: str) -> bool:
    return "/torch/" in file or file.endswith(("/contextlib.py", "/functools.py"))


def _owned_breaks(report: Report) -> Iterator[GraphBreak]:
    for breaks in _breaks_of_wrappers(report).values():
        yield from breaks


RULE = Rule(
    id="distributed-order",
    title="torch.compile and a distributed wrapper in an unlucky order",
    severity="warning",
    description=(
        "DistributedDataParallel and FSDP do work that a graph cannot hold. Compiled from outside, the graph breaks in "
        "their code; compiled inside of them, it does not, and DDP still splits it at its buckets. A model that ran "
        "compiled before DDP was put around it keeps a graph that is not split."
    ),
    fix=(
        "With DDP call `model.compile()` and wrap the model then, before its first call. With FSDP compile each "
        "block before it is sharded."
    ),
    example=Example(*_DDP_EXAMPLE),
    passed="No distributed wrapper stands in the way of the compiler.",
    judge=_judge,
    owns_breaks=_owned_breaks,
    precedence=-2,
)
