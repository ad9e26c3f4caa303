"""Adapters of PEFT: switched between calls, replaced by one of another rank, or left apart from the weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Example, Report
from dynalyze.report.models import Adapters, ModuleFacts
from dynalyze.rules import report_queries as queries
from dynalyze.rules.recompile_advice import shown_values
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, how_often, whole_number

_MOST_VALUES = 6
_SWITCHED = re.compile(r"\b_?active_adapters?\b|\b_?disable_adapters\b|\b_adapters_disabled\b|\bmerged_adapters\b")
_LIMIT = "torch._dynamo.config.recompile_limit"


def _owns_switch(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    trained = series.lead.cause == "requires_grad" and queries.LORA_WEIGHT.search(source) is not None
    return (trained or _SWITCHED.search(source) is not None) and queries.uses_peft(report)


@Rule(
    title="Adapters were switched, or can be",
    rank=395,
    link="https://huggingface.co/docs/peft/developer_guides/torch_compile",
    description="PEFT keeps the name of the active adapter, and whether adapters are on, as Python values. set_adapter "
    "and disable_adapter change them, and the model is compiled again: once for each new state. The finding "
    "lora-several-adapters says that more than one adapter is loaded, where the run showed no switch.",
    fix="Call every state of the adapters once in the warm-up. For many adapters of one shape load a single one, "
    "prepare it with `prepare_model_for_compiled_hotswap`, and swap its weights with `hotswap_adapter`.",
    example=Example(
        "compiled = torch.compile(model)",
        'compiled = torch.compile(model)\nfor name in ("first", "second"):  # every adapter that production uses\n'
        "    model.set_adapter(name)\n    compiled(**inputs)\nwith model.disable_adapter():\n    compiled(**inputs)",
    ),
    owns_recompiles=_owns_switch,
    at_limit="Load a single adapter, call `prepare_model_for_compiled_hotswap` before torch.compile, and replace its "
    "weights with `hotswap_adapter`: then no number of adapters compiles anything.",
    more_ids=("lora-several-adapters",),
)
def adapter_switch(report: Report) -> Iterator[Ranked]:
    if series := adapter_switch.recompiles(report):
        yield _switched(series, report)
        return
    for module, adapters in queries.adapters_of(report):
        if len(adapters.names) > 1 and not adapters.merged and not adapters.switches:
            yield _several(module, adapters)


def _switched(series: list[Series], report: Report) -> Ranked:
    members = [member for one in series for member in one.recompiles]
    names = next((adapters.names for _, adapters in queries.adapters_of(report) if adapters.names), [])
    known = f" ({', '.join(names)})" if names else ""
    values = shown_values(series[0])
    more = ", ..." if len(values) > _MOST_VALUES else ""
    went = f" Here the state went {', '.join(values[:_MOST_VALUES])}{more}." if len(values) > 1 else ""
    limit = report.settings.get(_LIMIT)
    return adapter_switch.finding(
        f"Switching adapters compiled the model again {how_often(len(members))}",
        f"Run every state of the adapters{known} once in the warm-up: each `set_adapter`, and `disable_adapter` where "
        "it is used, is compiled once and then kept. For many adapters of one shape load a single one, call "
        "`prepare_model_for_compiled_hotswap` before torch.compile, and replace its weights with `hotswap_adapter`: "
        f"that compiles nothing.{went}",
        why=f"{queries.FROM_RUN} Which adapter is active is a Python value to the compiler, built into the code. torch "
        f"keeps {limit if isinstance(limit, int) else 8} versions of a function ({_LIMIT}); with more states than "
        "that, calls run in eager.",
        example=adapter_switch.example,
        location=queries.called_from(report, series[0].lead),
        evidence=queries.ids(members),
        impact=queries.recompile_cost(members),
    )


def _several(module: ModuleFacts, adapters: Adapters) -> Ranked:
    if len(adapters.active) > 1:
        title = f"{count_of(len(adapters.active), 'adapter')} run at once in {module.class_name}"
        action = (
            f"Join the active adapters of {module.class_name} into one with `add_weighted_adapter`, or merge them with "
            "`merge_and_unload`, where they always run together."
        )
        why = "Read from the layers: every active adapter adds two multiplications to each layer that it is in."
    else:
        loaded = f"{count_of(len(adapters.names), 'adapter')} ({', '.join(adapters.names)})"
        title = f"{module.class_name} holds {loaded}: a switch will compile again"
        action = (
            "If production switches between them, call each once in the warm-up after `set_adapter`. If it does not, "
            f"load `{adapters.active[0] if adapters.active else adapters.names[0]}` alone."
        )
        why = (
            f"{queries.FROM_SETTINGS} Each state of the adapters is compiled by itself, at the first "
            "call that meets it."
        )
    return adapter_switch.finding(
        title,
        action,
        why=why,
        rank=650,
        rule="lora-several-adapters",
        severity="info",
        location=queries.compiled_at(module),
        evidence=[module.id],
    )


_SCALING = re.compile(r"\.scaling\[")


def _owns_hotswap(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    return (_SCALING.search(source) or queries.LORA_WEIGHT.search(source)) is not None and queries.uses_peft(report)


@Rule(
    title="A hot-swapped adapter compiled the model again",
    rank=396,
    link="https://huggingface.co/docs/peft/package_reference/hotswap",
    description="PEFT can replace the weights of a loaded adapter without a new compile, if the model was prepared: "
    "one rank for all, and scalings that are tensors. Without that an adapter of another rank or scaling compiles it "
    "again.",
    fix="Call `prepare_model_for_compiled_hotswap` once, before torch.compile, with the highest rank of all adapters.",
    example=Example(
        "compiled = torch.compile(model)",
        "prepare_model_for_compiled_hotswap(model, target_rank=16)\ncompiled = torch.compile(model)",
    ),
    owns_recompiles=_owns_hotswap,
    at_limit="Call `prepare_model_for_compiled_hotswap` before torch.compile, with the highest rank of all adapters as "
    "`target_rank`.",
)
def lora_hotswap(report: Report) -> Iterator[Ranked]:
    series = lora_hotswap.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    adapters = [adapters for _, adapters in queries.adapters_of(report)]
    # Of the ranks that were seen, as sizes or in the layers at the end, the highest.
    sized = [one for one in series if re.search(r"\.size\(\)\[\d+\]$", one.lead.source or "")]
    sizes = [size for one in sized for size in map(whole_number, one.values) if size is not None]
    rank = max([*sizes, *(rank for each in adapters for rank in each.ranks.values())], default=16)
    ranks = sizes or any(one.lead.cause in ("shape", "symbolic", "stride", "rank") for one in series)
    call = f"prepare_model_for_compiled_hotswap(model, target_rank={rank})"
    if any(each.prepared_for_hotswap for each in adapters):
        action = (
            "The model was prepared for hot-swapping, but not for this adapter: give the highest rank of all adapters "
            f"as `target_rank` (at least {rank}), and call `prepare_model_for_compiled_hotswap` before torch.compile."
        )
    else:
        action = (
            f"Call `{call}` of `peft.utils.hotswap` once, before torch.compile and before the first swap, with the "
            "highest rank of all adapters that will be swapped in."
        )
    yield lora_hotswap.finding(
        f"The {'rank' if ranks else 'scaling'} of an adapter changed, and the model was compiled again "
        f"{how_often(len(members))}",
        action,
        why=f"{queries.FROM_RUN} A rank is a size of the weights, and a scaling is a Python number: both are built "
        "into the compiled code. Preparing pads the weights to one rank and makes tensors of the scalings.",
        example=Example("compiled = torch.compile(model)", f"{call}\ncompiled = torch.compile(model)"),
        location=queries.called_from(report, series[0].lead),
        evidence=queries.ids(members),
        impact=queries.recompile_cost(members),
    )


@Rule(
    title="An adapter is computed beside the weights",
    severity="info",
    rank=640,
    link="https://huggingface.co/docs/peft/developer_guides/lora#merge-lora-weights-into-the-base-model",
    description="An unmerged LoRA adapter adds two small multiplications to each of its layers. That is needed in "
    "training and for switching adapters, and costs time in inference with a single one.",
    fix="Merge an adapter that is always on, before torch.compile.",
    example=Example(
        "compiled = torch.compile(model)", "model = model.merge_and_unload()\ncompiled = torch.compile(model)"
    ),
)
def lora_unmerged(report: Report) -> Iterator[Ranked]:
    if adapter_switch.recompiles(report) or lora_hotswap.recompiles(report):
        return  # Adapters that change cannot be merged.
    backward = any(each.backward for each in report.compilations)
    for module, adapters in queries.adapters_of(report):
        apart = not (adapters.merged or adapters.disabled or adapters.prepared_for_hotswap or adapters.switches)
        always_on = len(adapters.names) == 1 and bool(adapters.active)
        if not apart or not always_on or module.training or backward:
            continue
        name = adapters.active[0]
        rank = f" of rank {adapters.ranks[name]}" if name in adapters.ranks else ""
        where = f" in {count_of(adapters.layers, 'layer')}" if adapters.layers else ""
        libraries = sorted({group.library for group in module.layers})
        caution = (
            f" The weights are quantised ({', '.join(libraries)}): merging rounds them anew. Merge into the "
            "unquantised model and quantise the result, or compare the answers."
        )
        yield lora_unmerged.finding(
            f"The adapter `{name}`{rank} is computed beside the weights{where}",
            "Merge the adapter before torch.compile where it is always on: `model = model.merge_and_unload()`."
            f"{caution if libraries else ''} Leave it where adapters are to be replaced while the model serves.",
            why=f"{queries.FROM_LAYERS} Each of these layers does two multiplications more and an addition in every "
            "call. Merged, the model is as fast as without the adapter. How much that is here was not measured.",
            example=lora_unmerged.example,
            location=queries.compiled_at(module),
            evidence=[module.id],
        )
