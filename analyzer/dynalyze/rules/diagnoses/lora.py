"""Adapters of PEFT: switched between calls, replaced by one of another rank, or left apart from the weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.report.models import Adapters, ModuleFacts
from dynalyze.rules.recompile_advice import shown_values
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import (
    FROM_LAYERS,
    FROM_RUN,
    FROM_SETTINGS,
    LORA_WEIGHT,
    adapters_of,
    called_from,
    compiled_at,
    counted,
    recompile_cost,
    times,
    trains,
    uses_peft,
)
from dynalyze.rules.rule import Rule

_RANK_SWITCH, _RANK_OF_CHANCES = 395, 650
_MOST_VALUES = 6
_SWITCHED = re.compile(r"\b_?active_adapters?\b|\b_?disable_adapters\b|\b_adapters_disabled\b|\bmerged_adapters\b")
_LIMIT = "torch._dynamo.config.recompile_limit"
_LINK_SWITCH = "https://huggingface.co/docs/peft/developer_guides/torch_compile"


def _judge_switch(report: Report) -> Iterator[tuple[int, Finding]]:
    series = SWITCH.recompiles(report)
    if series:
        yield _RANK_SWITCH, _switched(series, report)
        return
    for module, adapters in adapters_of(report):
        if len(adapters.names) > 1 and not adapters.merged and not adapters.switches:
            yield _RANK_OF_CHANCES, _several(module, adapters)


def _switched(series: list[Series], report: Report) -> Finding:
    members = [member for one in series for member in one.recompiles]
    names = next((adapters.names for _, adapters in adapters_of(report) if adapters.names), [])
    known = f" ({', '.join(names)})" if names else ""
    action = (
        f"Run every state of the adapters{known} once in the warm-up: each `set_adapter`, and `disable_adapter` where "
        "it is used, is compiled once and then kept. For many adapters of one shape load a single one, call "
        "`prepare_model_for_compiled_hotswap` before torch.compile, and replace its weights with `hotswap_adapter`: "
        f"that compiles nothing.{_history(series)}"
    )
    return SWITCH.finding(
        title=f"Switching adapters compiled the model again {times(len(members))}",
        location=called_from(report, series[0].lead),
        evidence=[member.id for member in members],
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} Which adapter is active is a Python value to the compiler, built into the code. torch "
            f"keeps {_limit(report)} versions of a function ({_LIMIT}); with more states than that, calls run in "
            "eager.",
            example=SWITCH.example,
            link=_LINK_SWITCH,
        ),
        impact=recompile_cost(members),
    )


def _limit(report: Report) -> int:
    """How many versions torch keeps here; its default where the run does not tell."""
    found = report.settings.get(_LIMIT)
    return found if isinstance(found, int) else 8


def _history(series: list[Series]) -> str:
    values = shown_values(series[0])
    if len(values) < 2:
        return ""
    more = ", ..." if len(values) > _MOST_VALUES else ""
    return f" Here the state went {', '.join(values[:_MOST_VALUES])}{more}."


def _several(module: ModuleFacts, adapters: Adapters) -> Finding:
    together = len(adapters.active) > 1
    loaded = f"{counted(len(adapters.names), 'adapter')} ({', '.join(adapters.names)})"
    if together:
        action = (
            f"Join the active adapters of {module.class_name} into one with `add_weighted_adapter`, or merge them with "
            "`merge_and_unload`, where they always run together."
        )
        title = f"{counted(len(adapters.active), 'adapter')} run at once in {module.class_name}"
    else:
        action = (
            f"If production switches between them, call each once in the warm-up after `set_adapter`. If it does not, "
            f"load `{adapters.active[0] if adapters.active else adapters.names[0]}` alone."
        )
        title = f"{module.class_name} holds {loaded}: a switch will compile again"
    return SWITCH.finding(
        title=title,
        rule="lora-several-adapters",
        severity="info",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(action=action, why=_why(together=together), link=_LINK_SWITCH),
    )


def _why(*, together: bool) -> str:
    if together:
        return "Read from the layers: every active adapter adds two multiplications to each layer that it is in."
    return f"{FROM_SETTINGS} Each state of the adapters is compiled by itself, at the first call that meets it."


def _owns_series_switch(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    trained = series.lead.cause == "requires_grad" and LORA_WEIGHT.search(source) is not None
    return (trained or _SWITCHED.search(source) is not None) and uses_peft(report)


SWITCH = Rule(
    id="adapter-switch",
    title="Adapters were switched, or can be",
    severity="warning",
    description=(
        "PEFT keeps the name of the active adapter, and whether adapters are on, as Python values. set_adapter and "
        "disable_adapter change them, and the model is compiled again: once for each new state. The finding "
        "lora-several-adapters says that more than one adapter is loaded, where the run showed no switch."
    ),
    fix=(
        "Call every state of the adapters once in the warm-up. For many adapters of one shape load a single one, "
        "prepare it with `prepare_model_for_compiled_hotswap`, and swap its weights with `hotswap_adapter`."
    ),
    example=Example(
        "compiled = torch.compile(model)",
        'compiled = torch.compile(model)\nfor name in ("first", "second"):  # every adapter that production uses\n'
        "    model.set_adapter(name)\n    compiled(**inputs)\nwith model.disable_adapter():\n    compiled(**inputs)",
    ),
    passed="No adapter was switched between calls.",
    judge=_judge_switch,
    owns_recompiles=_owns_series_switch,
    at_limit=(
        "Load a single adapter, call `prepare_model_for_compiled_hotswap` before torch.compile, and replace its "
        "weights with `hotswap_adapter`: then no number of adapters compiles anything."
    ),
    more_ids=("lora-several-adapters",),
)


_RANK_HOTSWAP = 396
_SCALING = re.compile(r"\.scaling\[")
_LINK_HOTSWAP = "https://huggingface.co/docs/peft/package_reference/hotswap"


def _judge_hotswap(report: Report) -> Iterator[tuple[int, Finding]]:
    series = HOTSWAP.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    prepared = any(adapters.prepared_for_hotswap for _, adapters in adapters_of(report))
    rank = _highest_rank(series, report)
    action = _action(rank, prepared=prepared)
    call = f"prepare_model_for_compiled_hotswap(model, target_rank={rank})"
    yield (
        _RANK_HOTSWAP,
        HOTSWAP.finding(
            title=f"{_what(series)} of an adapter changed, and the model was compiled again "
            f"{'once' if len(members) == 1 else f'{len(members)} times'}",
            location=called_from(report, series[0].lead),
            evidence=[member.id for member in members],
            advice=Advice(
                action=action,
                why=f"{FROM_RUN} A rank is a size of the weights, and a scaling is a Python number: both are built "
                "into the compiled code. Preparing pads the weights to one rank and makes tensors of the scalings.",
                example=Example("compiled = torch.compile(model)", f"{call}\ncompiled = torch.compile(model)"),
                link=_LINK_HOTSWAP,
            ),
            impact=recompile_cost(members),
        ),
    )


def _action(rank: int, *, prepared: bool) -> str:
    if prepared:
        return (
            f"The model was prepared for hot-swapping, but not for this adapter: give the highest rank of all adapters "
            f"as `target_rank` (at least {rank}), and call `prepare_model_for_compiled_hotswap` before torch.compile."
        )
    return (
        f"Call `prepare_model_for_compiled_hotswap(model, target_rank={rank})` of `peft.utils.hotswap` once, before "
        "torch.compile and before the first swap, with the highest rank of all adapters that will be swapped in."
    )


def _what(series: list[Series]) -> str:
    """The rank, where a size changed, else the scaling."""
    ranks = any(one.lead.cause in ("shape", "symbolic", "stride", "rank") for one in series)
    return "The rank" if ranks or _sizes(series) else "The scaling"


def _sizes(series: list[Series]) -> list[int]:
    return [
        int(value)
        for one in series
        if re.search(r"\.size\(\)\[\d+\]$", one.lead.source or "")
        for value in one.values
        if value.isdigit()
    ]


def _highest_rank(series: list[Series], report: Report) -> int:
    """Of the ranks that were seen, as sizes or in the layers at the end."""
    seen = [rank for _, adapters in adapters_of(report) for rank in adapters.ranks.values()]
    return max([*seen, *_sizes(series)], default=16)


def _owns_series_hotswap(series: Series, report: Report) -> bool:
    source = series.lead.source or ""
    return (_SCALING.search(source) or LORA_WEIGHT.search(source)) is not None and uses_peft(report)


HOTSWAP = Rule(
    id="lora-hotswap",
    title="A hot-swapped adapter compiled the model again",
    severity="warning",
    description=(
        "PEFT can replace the weights of a loaded adapter without a new compile, if the model was prepared: one rank "
        "for all, and scalings that are tensors. Without that an adapter of another rank or scaling compiles it again."
    ),
    fix="Call `prepare_model_for_compiled_hotswap` once, before torch.compile, with the highest rank of all adapters.",
    example=Example(
        "compiled = torch.compile(model)",
        "prepare_model_for_compiled_hotswap(model, target_rank=16)\ncompiled = torch.compile(model)",
    ),
    passed="No adapter was replaced by one that did not fit the compiled code.",
    judge=_judge_hotswap,
    owns_recompiles=_owns_series_hotswap,
    at_limit=(
        "Call `prepare_model_for_compiled_hotswap` before torch.compile, with the highest rank of all adapters as "
        "`target_rank`."
    ),
)


_RANK_UNMERGED = 640
_LINK_UNMERGED = "https://huggingface.co/docs/peft/developer_guides/lora#merge-lora-weights-into-the-base-model"


def _judge_unmerged(report: Report) -> Iterator[tuple[int, Finding]]:
    if SWITCH.recompiles(report) or HOTSWAP.recompiles(report):
        return  # Adapters that change cannot be merged.
    for module, adapters in adapters_of(report):
        if _could_be_merged(adapters) and not trains(report, module):
            yield _RANK_UNMERGED, _finding(module, adapters)


def _could_be_merged(adapters: Adapters) -> bool:
    apart = not adapters.merged and not adapters.disabled and not adapters.prepared_for_hotswap
    return apart and len(adapters.names) == 1 and not adapters.switches and bool(adapters.active)


def _finding(module: ModuleFacts, adapters: Adapters) -> Finding:
    name = adapters.active[0]
    rank = f" of rank {adapters.ranks[name]}" if name in adapters.ranks else ""
    where = f" in {counted(adapters.layers, 'layer')}" if adapters.layers else ""
    action = (
        "Merge the adapter before torch.compile where it is always on: `model = model.merge_and_unload()`."
        f"{_caution(module)} Leave it where adapters are to be replaced while the model serves."
    )
    return UNMERGED.finding(
        title=f"The adapter `{name}`{rank} is computed beside the weights{where}",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(
            action=action,
            why=f"{FROM_LAYERS} Each of these layers does two multiplications more and an addition in every "
            "call. Merged, the model is as fast as without the adapter. How much that is here was not measured.",
            example=UNMERGED.example,
            link=_LINK_UNMERGED,
        ),
    )


def _caution(module: ModuleFacts) -> str:
    libraries = sorted({group.library for group in module.layers})
    if not libraries:
        return ""
    return (
        f" The weights are quantised ({', '.join(libraries)}): merging rounds them anew. Merge into the unquantised "
        "model and quantise the result, or compare the answers."
    )


UNMERGED = Rule(
    id="lora-unmerged",
    title="An adapter is computed beside the weights",
    severity="info",
    description=(
        "An unmerged LoRA adapter adds two small multiplications to each of its layers. That is needed in training and "
        "for switching adapters, and costs time in inference with a single one."
    ),
    fix="Merge an adapter that is always on, before torch.compile.",
    example=Example(
        "compiled = torch.compile(model)", "model = model.merge_and_unload()\ncompiled = torch.compile(model)"
    ),
    passed="No adapter was left unmerged in inference.",
    judge=_judge_unmerged,
)

RULES = (SWITCH, HOTSWAP, UNMERGED)
