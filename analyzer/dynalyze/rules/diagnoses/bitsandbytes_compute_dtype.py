"""4-bit layers that unpack their weights to float32 and multiply in it, in a model of 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.report.models import LayerGroup, ModuleFacts
from dynalyze.rules.report_queries import FROM_LAYERS, compiled_at, counted, layers_of
from dynalyze.rules.rule import Rule

_RANK = 340
_LINK = "https://huggingface.co/docs/transformers/quantization/bitsandbytes"
_HALVES = ("bfloat16", "float16")
_AMPERE = (8, 0)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for module, group in layers_of(report, "bitsandbytes"):
        if "4bit" in group.kind and group.facts.get("compute_dtype") == "float32":
            yield _RANK, _finding(report, module, group)


def _finding(report: Report, module: ModuleFacts, group: LayerGroup) -> Finding:
    wanted = _wanted(report, module)
    on_accelerator = any(not device.startswith(("cpu", "meta")) for device in module.devices)
    slow = on_accelerator and _is_half(module)
    action = (
        f"Set `bnb_4bit_compute_dtype=torch.{wanted}` in the `BitsAndBytesConfig` that loads the model (its default is "
        f"float32), or `compute_dtype=torch.{wanted}` of the layers."
    )
    return RULE.finding(
        title=f"{counted(group.count, '4-bit layer')} of {module.class_name} "
        f"{'computes' if group.count == 1 else 'compute'} in float32",
        severity="warning" if slow else "info",
        location=compiled_at(module),
        evidence=[module.id],
        advice=Advice(
            action=action,
            why=_why(group, on_accelerator=on_accelerator),
            example=Example(
                "BitsAndBytesConfig(load_in_4bit=True)",
                f"BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.{wanted})",
            ),
            link=_LINK,
        ),
    )


def _why(group: LayerGroup, *, on_accelerator: bool) -> str:
    told = f"{FROM_LAYERS} `{group.first}` casts its input to float32, multiplies, and casts back."
    unpacked = group.facts.get("quantised_from")
    if unpacked in _HALVES:
        told += f" Its weight is unpacked to {unpacked} and cast up for that."
    if on_accelerator:
        return f"{told} Nothing fails or warns; it only takes the slow way. How slow was not measured."
    return f"{told} Whether 16 bits are faster on this processor was not measured; on a GPU they are."


def _is_half(module: ModuleFacts) -> bool:
    """Whether the rest of the model is kept in 16 bits; packed weights count as integers."""
    floats = {name: number for name, number in module.parameters.items() if name.startswith(("float", "bfloat"))}
    return bool(floats) and max(floats, key=lambda name: floats[name]) in _HALVES


def _wanted(report: Report, module: ModuleFacts) -> str:
    """bfloat16, unless the model or the GPU is made for float16."""
    capability: Any = report.settings.get("torch.cuda.get_device_capability")
    old = isinstance(capability, list | tuple) and tuple(capability) < _AMPERE
    return "float16" if old or "float16" in module.parameters else "bfloat16"


RULE = Rule(
    id="bitsandbytes-compute-dtype",
    title="4-bit layers compute in float32",
    severity="warning",
    description=(
        "bitsandbytes unpacks a 4-bit weight in every call and multiplies in the layer's compute dtype. transformers "
        "sets float32 unless bnb_4bit_compute_dtype is given. In a model of 16 bits on a GPU that is silently slow."
    ),
    fix="Set `bnb_4bit_compute_dtype` in the `BitsAndBytesConfig` that loads the model.",
    example=Example(
        "BitsAndBytesConfig(load_in_4bit=True)",
        "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)",
    ),
    passed="No 4-bit layer computes in float32.",
    judge=_judge,
)
