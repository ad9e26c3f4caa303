"""FlashAttention on a GPU that is older than its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.rules.report_queries import FROM_SETTINGS, capability, device_name, flash_calls, flash_modules, ids
from dynalyze.rules.rule import Rule

# What transformers asks of a GPU for each version of flash-attn; version 2 says so itself.
_NEEDS = {"2": (8, 0), "3": (8, 0), "4": (9, 0)}
_CALLED = {(8, 0): "Ampere", (9, 0): "Hopper"}
_VERSION = re.compile(r"flash_attention_(\d)|flash-attn-?(\d)")


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    found = capability(report)
    if found is None:
        return
    asked: dict[str, list[str]] = {}
    for module in flash_modules(report):
        asked.setdefault(_version(module.attention), []).extend(ids([module]))
    if not asked and (calls := flash_calls(report)):
        asked["2"] = ids(calls)  # Of the oldest: what the others need is not less.
    for version, evidence in asked.items():
        needed = _NEEDS.get(version, _NEEDS["2"])
        if found < needed:
            yield 10, _finding(report, version, needed, found, evidence)


def _version(attention: str) -> str:
    """`2` for flash_attention_2, and for a name that does not say."""
    named = _VERSION.search(attention)
    return (named[1] or named[2]) if named is not None else "2"


def _finding(
    report: Report, version: str, needed: tuple[int, int], found: tuple[int, int], evidence: list[str]
) -> Finding:
    name = device_name(report)
    action = 'Use `attn_implementation="sdpa"`: PyTorch then takes the best kernel that this GPU has.'
    return RULE.finding(
        title=f"FlashAttention-{version} does not run on {name} (compute capability {found[0]}.{found[1]})",
        location=None,
        evidence=evidence,
        advice=Advice(
            action=action,
            why=f"{FROM_SETTINGS} FlashAttention-{version} needs {needed[0]}.{needed[1]} ({_CALLED[needed]}) or later.",
        ),
    )


RULE = Rule(
    id="flash-attention-device",
    title="FlashAttention that this GPU has no kernel for",
    severity="error",
    description=(
        "FlashAttention 2 and 3 are made for GPUs of compute capability 8.0 (Ampere) or more, version 4 for 9.0 "
        "(Hopper). On an older one the model fails at its first call of attention."
    ),
    fix='Use `attn_implementation="sdpa"` on such a GPU.',
    passed="The GPU has what attention asks for, or its capability is not known.",
    judge=_judge,
)
