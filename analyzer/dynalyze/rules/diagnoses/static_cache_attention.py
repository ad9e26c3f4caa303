"""FlashAttention with a static cache: a combination that has been wrong, and that is not one graph."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.rules.report_queries import FROM_LAYERS, compiled_at, flash_modules
from dynalyze.rules.rule import Rule

_RANK = 330
_LINK = "https://github.com/huggingface/transformers/issues/32040"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for module in flash_modules(report):
        if module.cache != "static":
            continue
        action = (
            f'Load {module.class_name} with `attn_implementation="sdpa"` for a static cache, or keep '
            f"`{module.attention}` with the default cache. If both are needed, compare the answers with eager ones "
            "before they ship."
        )
        yield (
            _RANK,
            RULE.finding(
                title=f"{module.class_name} uses {module.attention} with a static cache",
                location=compiled_at(module),
                evidence=[module.id],
                advice=Advice(
                    action=action,
                    why=f"{FROM_LAYERS} The run does not show whether its answers are wrong: that is for the "
                    "accuracy test. A static cache holds empty positions after the text, which FlashAttention takes "
                    "for real ones unless the model cuts them off; and transformers compiles this pair only without "
                    "fullgraph.",
                    link=_LINK,
                ),
            ),
        )


RULE = Rule(
    id="static-cache-attention",
    title="FlashAttention with a static cache",
    severity="warning",
    description=(
        "A static cache has room for the longest text from the first token on. FlashAttention knows the length of the "
        "text only if the model tells it; versions of transformers that did not gave wrong answers or failed."
    ),
    fix="Use sdpa with a static cache, or FlashAttention with the default one; else compare the answers.",
    example=Example(
        'from_pretrained(name, attn_implementation="flash_attention_2")',
        'from_pretrained(name, attn_implementation="sdpa")',
    ),
    passed="FlashAttention did not meet a static cache.",
    judge=_judge,
)
