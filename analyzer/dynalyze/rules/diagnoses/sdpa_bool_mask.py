"""Boolean attention masks on CUDA, which are made into numbers in each call."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.rules.report_queries import FROM_GRAPH, on_cuda, once, place_of, sdpa_calls, shape
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    return once(_found(report))


def _found(report: Report) -> Iterator[tuple[int, Finding]]:
    for call in sdpa_calls(report):
        if not on_cuda(call) or call.mask is None or call.mask.dtype != "bool":
            continue
        dtype = call.query.dtype if call.query is not None else "float16"
        action = (
            "Pass `is_causal=True` and no mask where the mask is causal: FlashAttention takes no mask at all. Else "
            f"make a {dtype} mask once (0 where a key is seen, -inf elsewhere) and pass it to every layer."
        )
        yield (
            510,
            RULE.finding(
                title="A boolean attention mask is made into numbers in each call",
                location=place_of(report, call),
                evidence=[call.id],
                advice=Advice(
                    action=action,
                    why=f"{FROM_GRAPH} The mask is {shape(call.mask)}. What it costs was not measured.",
                ),
            ),
        )


RULE = Rule(
    id="sdpa-bool-mask",
    title="A boolean mask for attention",
    severity="info",
    description=(
        "Kernels add a mask to the scores. A boolean one is made into zeros and minus infinities first, in every "
        "layer, and any mask at all keeps FlashAttention from being taken."
    ),
    fix="Pass `is_causal=True` and no mask where it is causal; else make a mask of numbers once, for all layers.",
    example=Example(
        "mask = allowed", "mask = torch.zeros(allowed.shape, dtype=query.dtype).masked_fill(~allowed, float('-inf'))"
    ),
    passed="No boolean mask was given to scaled_dot_product_attention on CUDA.",
    judge=_judge,
)
