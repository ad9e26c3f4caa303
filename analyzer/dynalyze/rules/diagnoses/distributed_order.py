"""The order of torch.compile and the wrappers of distributed training."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.model_facts import ModuleFacts
from dynalyze.report import Advice, Example, Finding, GraphBreak, Location, Report
from dynalyze.rules.break_owners import severity_of
from dynalyze.rules.distributed_breaks import breaks_of_wrappers
from dynalyze.rules.rule import Rule
from dynalyze.rules.setup import FROM_CONFIGURATION, FROM_RUN

_RANK = 120
_WHERE = "https://docs.pytorch.org/docs/stable/compile/programming_model.where_to_apply_compile.html"
_DDP = "https://docs.pytorch.org/docs/stable/notes/ddp.html"
_OPTIMIZE = "torch._dynamo.config.optimize_ddp"
_SHARDED = ("FSDPModule", "FullyShardedDataParallel")
_SHORT = {"DistributedDataParallel": "DDP", "FSDPModule": "fully_shard", "FullyShardedDataParallel": "FSDP"}


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for wrapper, breaks in breaks_of_wrappers(report).items():
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
    return Finding(
        rule="distributed-order",
        severity=severity_of(breaks),
        title=f"torch.compile traces {short} around {name}: {number} in torch's own code",
        location=_place(module) or breaks[0].location,
        evidence=[*(each.id for each in breaks), module.id],
        advice=_blocks_first(name) if sharded else _model_first(name, short),
        detail=Advice(
            action="",
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
    return Finding(
        rule="distributed-order",
        severity="warning",
        title=f"{module.class_name} was compiled before DDP was put around it",
        location=_place(module),
        evidence=[module.id],
        advice=(
            f"Put DistributedDataParallel around `{module.class_name}` before its first call: keep warm-up calls for "
            "the wrapped model, or call `torch._dynamo.reset()` after wrapping."
        ),
        detail=Advice(
            action="",
            why=(
                "DDP exchanges gradients bucket by bucket while backward runs. The compiler splits the graph at these "
                "buckets only if DDP makes the call that is compiled. A graph that was compiled before is used as it "
                f"is: all gradients come at its end, and nothing is exchanged meanwhile. {FROM_RUN}"
            ),
            link=_DDP,
        ),
    )


def _not_split(module: ModuleFacts) -> Finding:
    return Finding(
        rule="distributed-order",
        severity="info",
        title=f"{module.class_name} is not split at DDP's buckets: {_OPTIMIZE} is off",
        location=_place(module),
        evidence=[module.id, _OPTIMIZE],
        advice=f"Leave `{_OPTIMIZE}` at True, unless you measured that the split costs more than it hides.",
        detail=Advice(
            action="",
            why=(
                "As one graph the backward pass gives all gradients at its end, so no exchange runs beside it. "
                f"{FROM_CONFIGURATION}"
            ),
            config=f"{_OPTIMIZE} = True",
            link=_DDP,
        ),
    )


def _place(module: ModuleFacts) -> Location | None:
    return Location(module.file, module.line) if module.file else None


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
    of=("graph-break",),
)
