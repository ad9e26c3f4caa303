"""A single adapter that stays apart from the weights in inference."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.report.models import Adapters, ModuleFacts
from dynalyze.rules.diagnoses import adapter_switch, lora_hotswap
from dynalyze.rules.report_queries import FROM_LAYERS, adapters_of, compiled_at, counted, trains
from dynalyze.rules.rule import Rule

_RANK = 640
_LINK = "https://huggingface.co/docs/peft/developer_guides/lora#merge-lora-weights-into-the-base-model"
_EXAMPLE = Example(
    "compiled = torch.compile(model)", "model = model.merge_and_unload()\ncompiled = torch.compile(model)"
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    if adapter_switch.RULE.recompiles(report) or lora_hotswap.RULE.recompiles(report):
        return  # Adapters that change cannot be merged.
    for module, adapters in adapters_of(report):
        if _could_be_merged(adapters) and not trains(report, module):
            yield _RANK, _finding(module, adapters)


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
    return RULE.finding(
        title=f"The adapter `{name}`{rank} is computed beside the weights{where}",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(
            action=action,
            why=f"{FROM_LAYERS} Each of these layers does two multiplications more and an addition in every "
            "call. Merged, the model is as fast as without the adapter. How much that is here was not measured.",
            example=_EXAMPLE,
            link=_LINK,
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


RULE = Rule(
    id="lora-unmerged",
    title="An adapter is computed beside the weights",
    severity="info",
    description=(
        "An unmerged LoRA adapter adds two small multiplications to each of its layers. That is needed in training and "
        "for switching adapters, and costs time in inference with a single one."
    ),
    fix="Merge an adapter that is always on, before torch.compile.",
    example=_EXAMPLE,
    passed="No adapter was left unmerged in inference.",
    judge=_judge,
)
