"""GPUs older than Ampere: no FlashAttention-2, and no bfloat16 of their own."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.rules.attention_calls import FROM_SETTINGS, capability, flash_calls, flash_modules, ids
from dynalyze.rules.rule import Rule

_AMPERE = (8, 0)
_LINK = "https://github.com/pytorch/pytorch/issues/118581"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None or found >= _AMPERE:
        return
    name = str(report.settings.get("torch.cuda.get_device_name") or "This GPU")
    gpu = f"{name} (compute capability {found[0]}.{found[1]})"
    asked = [*ids(flash_calls(report)), *ids(flash_modules(report))]
    if asked:
        yield 10, _without_flash(gpu, asked)
    half = [module for module in report.modules if "bfloat16" in module.parameters]
    if half:
        yield 120, _without_bfloat16(gpu, ids(half))


def _without_flash(gpu: str, evidence: list[str]) -> Finding:
    action = 'Use `attn_implementation="sdpa"`: PyTorch\'s memory-efficient kernel runs on this GPU.'
    return Finding(
        rule="flash-attention-device",
        severity="error",
        title=f"FlashAttention-2 does not run on {gpu}",
        location=None,
        evidence=evidence,
        advice=action,
        detail=Advice(action=action, why=f"{FROM_SETTINGS} FlashAttention-2 needs 8.0 (Ampere) or later."),
    )


def _without_bfloat16(gpu: str, evidence: list[str]) -> Finding:
    action = "Load the model with `dtype=torch.float16`."
    return Finding(
        rule="bfloat16-device",
        severity="warning",
        title=f"The model is in bfloat16, which {gpu} does not compute in",
        location=None,
        evidence=evidence,
        advice=action,
        detail=Advice(
            action=action,
            why=f"{FROM_SETTINGS} Before 8.0 (Ampere) bfloat16 is emulated, and Triton's kernels for it are slow or "
            "fail to compile.",
            link=_LINK,
        ),
    )


RULE = Rule(
    id="flash-attention-device",
    title="Attention that this GPU has no kernel for",
    severity="error",
    description=(
        "FlashAttention-2 and kernels in bfloat16 are made for GPUs of compute capability 8.0 or more. On older ones "
        "the first fails and the second is slow."
    ),
    passed="The GPU has what attention asks for, or its capability is not known.",
    judge=_judge,
    more_ids=("bfloat16-device",),
)
