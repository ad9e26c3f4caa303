"""Operations that Inductor has no kernel of its own for."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.facts.stacks import Places
from dynalyze.report import Kernel, Report
from dynalyze.rules.rule import Ranked, Rule

_MOST_NAMED = 4
# Kernels that eager has as one piece because nothing generated comes near them: good news, not a finding.
_MADE_FOR_IT = ("_scaled_dot_product_", "_flash_attention_", "_efficient_attention_", "_cudnn_attention_")


def _judge(report: Report) -> Iterator[Ranked]:
    fallbacks = [
        kernel
        for kernel in report.kernels
        if kernel.kind == "fallback" and not _op(kernel).startswith(_MADE_FOR_IT) and _can_be_changed(kernel)
    ]
    if not fallbacks:
        return
    calls = sum(kernel.calls for kernel in fallbacks)
    names = list(dict.fromkeys(f"`{_op(kernel)}`" for kernel in fallbacks))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    yield RULE.finding(
        f"Inductor calls eager kernels for {', '.join(names[:_MOST_NAMED])}{more}",
        f"{'One place' if calls == 1 else f'{calls} places'} in the compiled code {'calls' if calls == 1 else 'call'} "
        "ATen as eager code "
        "does, and nothing is fused into such a call. Leave it where the operation itself is the work (a sort, an "
        "FFT); replace it by elementwise operations and reductions where it stands between cheap ones.",
        location=next((place for kernel in fallbacks for place in kernel.places), None),
        evidence=dict.fromkeys(kernel.graph for kernel in fallbacks),
    )


def _can_be_changed(kernel: Kernel) -> bool:
    """Whether a line of the program's own asks for it, or may do so: a library's code is as it is."""
    places = Places()
    return not kernel.places or any(places.origin(each.file) == "user" for each in kernel.places)


def _op(kernel: Kernel) -> str:
    """`sort` for aten.sort.stable."""
    parts = kernel.name.split(".")
    return parts[1] if len(parts) > 1 else kernel.name


RULE = Rule(
    id="fallback-kernels",
    title="Kernels that Inductor does not generate",
    severity="info",
    rank=500,
    description="Inductor has no code of its own for these operations and calls PyTorch's eager kernels from the "
    "compiled code. The results are right; the call is not fused with what stands around it.",
    passed="Inductor generated code for every operation, or called a library made for it.",
    judge=_judge,
)
