"""float32 given to FlashAttention, which has kernels for float16 and bfloat16 alone."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Compilation, Example, Finding, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.report_queries import (
    FROM_GRAPH,
    FROM_RUN,
    FROM_SETTINGS,
    HALVES,
    flash_calls,
    flash_modules,
    ids,
    place_of,
)
from dynalyze.rules.rule import Rule

_REFUSED = "only support fp16 and bf16"
_WHY = "FlashAttention has no kernels for float32."


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    wide = [call for call in flash_calls(report) if call.query is not None and call.query.dtype == "float32"]
    if (refused := _refused(report)) is not None:
        evidence = [*ids(wide), *([refused.compile_id] if isinstance(refused, Compilation) else [])]
        place = place_of(report, wide[0]) if wide else refused.location if isinstance(refused, Compilation) else None
        yield 3, _finding(report, "FlashAttention refused float32", FROM_RUN, evidence, place, failed=True)
    elif wide:
        yield 70, _finding(report, "FlashAttention is given float32", FROM_GRAPH, ids(wide), place_of(report, wide[0]))
    elif not flash_calls(report):
        modules = [module for module in flash_modules(report) if _is_float32(module)]
        if modules:
            title = f"{modules[0].class_name} asks for FlashAttention and has float32 parameters"
            yield 340, _finding(report, title, FROM_SETTINGS, ids(modules), _compiled_at(modules[0]))


def _refused(report: Report) -> Compilation | str | None:
    """The compile that ended in flash-attn's own words, or whatever else holds them."""
    for compilation in report.compilations:
        if _REFUSED in compilation.reason:
            return compilation
    return next((text for text in (report.outcome.message, *report.capture.notes) if _REFUSED in text), None)


def _is_float32(module: ModuleFacts) -> bool:
    """Whether float32 is all there is; under autocast or with a quantiser the half-precision part is not hidden."""
    return "float32" in module.parameters and not any(half in module.parameters for half in HALVES)


def _compiled_at(module: ModuleFacts) -> Location | None:
    return Location(module.file, module.line) if module.file else None


def _finding(
    report: Report, title: str, sure: str, evidence: list[str], place: Location | None, *, failed: bool = False
) -> Finding:
    used = flash_modules(report)
    named = f'`attn_implementation="{used[0].attention}"`' if used else "FlashAttention"
    action = (
        f"Load the model with `dtype=torch.bfloat16` (or call `.to(torch.bfloat16)`) where {named} is to be used, run "
        'it under `torch.autocast`, or use `attn_implementation="sdpa"` for float32.'
    )
    return RULE.finding(
        title=title,
        severity="error" if failed else "warning",
        location=place,
        evidence=evidence,
        advice=Advice(action=action, why=f"{sure} {_WHY}"),
    )


RULE = Rule(
    id="flash-attention-float32",
    title="FlashAttention in float32",
    severity="error",
    description=(
        "The kernels of flash-attn exist for float16 and bfloat16. A model whose weights are float32 fails at its "
        "first call of attention; compiled, only when the graph runs."
    ),
    fix="Load the model in bfloat16 or float16, run it under autocast, or use sdpa for float32.",
    example=Example(
        'from_pretrained(name, attn_implementation="flash_attention_2")',
        'from_pretrained(name, attn_implementation="flash_attention_2", dtype=torch.bfloat16)',
    ),
    passed="FlashAttention got float16 or bfloat16, or was not used.",
    judge=_judge,
)
