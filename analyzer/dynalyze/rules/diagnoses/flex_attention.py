"""flex_attention outside of a compiled graph, with a mask made in each call, compiled again, or refused on a CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Report
from dynalyze.rules.report_queries import FROM_GRAPH, FROM_RUN, calls_of, counted, ids, once, place_of
from dynalyze.rules.rule import Ranked, Rule

# torch compiles this around a call that is in no graph, only to run it as single operations.
_WRAPPER = "_flex_attention_hop_wrapper"
_ABOUT_MASKS = re.compile(r"\b(block_mask|mask_mod|score_mod)\b")
_CPU_LIMITS = {
    "only supports inference": "Run it under `torch.no_grad()` and without `return_lse`",
    "does not support backward on CPU": "Run it under `torch.no_grad()`",
    "Mixed query, key, and value dtype": "Give query, key and value one dtype",
    "not supported for CPU": "Use `scaled_dot_product_attention`: this CPU lacks AVX2",
    "max scores is not supported on CPU": "Leave `AuxRequest(max_scores=True)` out",
}


@Rule(
    title="flex_attention below what it can do",
    link="https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html",
    description="flex_attention becomes one fused kernel inside a compiled graph alone. Outside, with a block mask "
    "made in each call, or with new functions in each call it is slow; on a CPU it computes no gradients.",
    fix="Compile the function that calls it, make block masks once outside of it, and define `mask_mod` and "
    "`score_mod` at the top of a module.",
    passed="flex_attention was compiled once, with a mask made before, or was not used.",
)
def flex_attention(report: Report) -> Iterator[Ranked]:
    refused = [
        (each, step)
        for each in report.compilations
        if each.status == "failed"
        and (step := next((step for words, step in _CPU_LIMITS.items() if words in each.reason), None))
    ]
    for compilation, step in refused:
        yield flex_attention.finding(
            "flex_attention cannot be compiled here",
            f"{step}; or use `scaled_dot_product_attention` with a mask on this device.",
            why=f"{FROM_RUN} torch says: {compilation.reason}",
            rank=5,
            severity="error",
            location=compilation.location,
            evidence=[compilation.compile_id],
        )
    if not refused and (outside := [each for each in report.compilations if each.function == _WRAPPER]):
        first = next((each for each in outside if each.caller is not None), outside[0])
        yield flex_attention.finding(
            "flex_attention is called outside of a compiled graph",
            "Compile the function that calls it, or call `torch.compile(flex_attention)` in its place.",
            why=f"{FROM_RUN} There it runs as single operations and writes the whole matrix of scores to memory, which "
            "it is made to avoid.",
            rank=150,
            location=first.caller or first.location,
            evidence=dict.fromkeys(each.compile_id for each in outside),
        )
    yield from _masks_made(report)
    again = [each for each in report.recompiles if _ABOUT_MASKS.search(f"{each.source or ''} {each.guard}")]
    if again:
        yield flex_attention.finding(
            f"A new mask or score function of flex_attention: {counted(len(again), 'recompile')}",
            "Define `score_mod` and `mask_mod` once, at the top of a module, and make each block mask once: a function "
            "defined in each call is a new one for the compiler. Read changing numbers in them from tensors.",
            why=f"{FROM_RUN} The guard that failed: {again[0].guard}",
            rank=210,
            location=again[0].location,
            evidence=ids(again),
        )


@once
def _masks_made(report: Report) -> Iterator[Ranked]:
    for call in calls_of(report, "flex_attention"):
        if call.mask_made:
            yield flex_attention.finding(
                "flex_attention's block mask is made anew in each call",
                "Make it once with `create_block_mask`, outside of the compiled function, and pass it in; make a new "
                "one only where the lengths change.",
                why=f"{FROM_GRAPH} The graph looks at every pair of positions to find the blocks that can be left out. "
                "What it costs was not measured.",
                rank=370,
                severity="info",
                location=place_of(report, call),
                evidence=[call.id],
            )
