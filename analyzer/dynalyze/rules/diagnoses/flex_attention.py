"""flex_attention outside of a compiled graph, with a mask made in each call, compiled again, or refused on a CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Compilation, Finding, Recompile, Report
from dynalyze.report.models import AttentionCall
from dynalyze.rules.report_queries import FROM_GRAPH, FROM_RUN, counted, ids, once, place_of
from dynalyze.rules.rule import Rule

_LINK = "https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html"
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


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    refused = [each for each in report.compilations if each.status == "failed" and _limit(each) is not None]
    for compilation in refused:
        yield 5, _refused(compilation)
    if not refused and (outside := [each for each in report.compilations if each.function == _WRAPPER]):
        yield 150, _outside(outside)
    yield from _masks_made(report)
    if again := [each for each in report.recompiles if _is_flex(each)]:
        yield 210, _again(again)


@once
def _masks_made(report: Report) -> Iterator[tuple[int, Finding]]:
    for call in report.attention:
        if call.op == "flex_attention" and call.mask_made:
            yield 370, _mask_made(report, call)


def _limit(compilation: Compilation) -> str | None:
    return next((step for words, step in _CPU_LIMITS.items() if words in compilation.reason), None)


def _refused(compilation: Compilation) -> Finding:
    action = f"{_limit(compilation)}; or use `scaled_dot_product_attention` with a mask on this device."
    return _finding(
        "flex_attention cannot be compiled here",
        action,
        f"{FROM_RUN} torch says: {compilation.reason}",
        evidence=[compilation.compile_id],
        compilation=compilation,
        failed=True,
    )


def _outside(compilations: list[Compilation]) -> Finding:
    caller = next((each for each in compilations if each.caller is not None), compilations[0])
    return _finding(
        "flex_attention is called outside of a compiled graph",
        "Compile the function that calls it, or call `torch.compile(flex_attention)` in its place.",
        f"{FROM_RUN} There it runs as single operations and writes the whole matrix of scores to memory, which it is "
        "made to avoid.",
        evidence=list(dict.fromkeys(each.compile_id for each in compilations)),
        compilation=caller,
    )


def _mask_made(report: Report, call: AttentionCall) -> Finding:
    action = (
        "Make it once with `create_block_mask`, outside of the compiled function, and pass it in; make a new one only "
        "where the lengths change."
    )
    return RULE.finding(
        title="flex_attention's block mask is made anew in each call",
        severity="info",
        location=place_of(report, call),
        evidence=ids([call]),
        advice=Advice(
            action=action,
            why=f"{FROM_GRAPH} The graph looks at every pair of positions to find the blocks that can be left out. "
            "What it costs was not measured.",
            link=_LINK,
        ),
    )


def _is_flex(recompile: Recompile) -> bool:
    return _ABOUT_MASKS.search(f"{recompile.source or ''} {recompile.guard}") is not None


def _again(recompiles: list[Recompile]) -> Finding:
    action = (
        "Define `score_mod` and `mask_mod` once, at the top of a module, and make each block mask once: a function "
        "defined in each call is a new one for the compiler. Read changing numbers in them from tensors."
    )
    return RULE.finding(
        title=f"A new mask or score function of flex_attention: {counted(len(recompiles), 'recompile')}",
        location=recompiles[0].location,
        evidence=[each.id for each in recompiles],
        advice=Advice(action=action, why=f"{FROM_RUN} The guard that failed: {recompiles[0].guard}", link=_LINK),
    )


def _finding(
    title: str, action: str, why: str, *, evidence: list[str], compilation: Compilation, failed: bool = False
) -> Finding:
    return RULE.finding(
        title=title,
        severity="error" if failed else "warning",
        location=compilation.location if failed else compilation.caller or compilation.location,
        evidence=evidence,
        advice=Advice(action=action, why=why, link=_LINK),
    )


RULE = Rule(
    id="flex-attention",
    title="flex_attention below what it can do",
    severity="warning",
    description=(
        "flex_attention becomes one fused kernel inside a compiled graph alone. Outside, with a block mask made in "
        "each call, or with new functions in each call it is slow; on a CPU it computes no gradients."
    ),
    fix=(
        "Compile the function that calls it, make block masks once outside of it, and define `mask_mod` and "
        "`score_mod` at the top of a module."
    ),
    passed="flex_attention was compiled once, with a mask made before, or was not used.",
    judge=_judge,
)
