"""Attention masks whose rows do not begin where the kernels of CUDA want them."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.report.models import AttentionInput
from dynalyze.rules.report_queries import FROM_GRAPH, on_cuda, once, place_of, sdpa_calls, shape
from dynalyze.rules.rule import Rule

_MULTIPLE = 8
_LINK = "https://github.com/pytorch/pytorch/issues/121943"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    return once(_found(report))


def _found(report: Report) -> Iterator[tuple[int, Finding]]:
    for call in sdpa_calls(report):
        if not on_cuda(call) or call.mask is None or call.backend in ("flash", "math") or not _is_odd(call.mask):
            continue
        keys = call.mask.shape[-1]
        action = (
            f"Make the mask {_rounded(keys)} keys wide and pass `mask[..., :{keys}]`: its rows then begin at multiples "
            f"of {_MULTIPLE}."
        )
        yield (
            360,
            RULE.finding(
                title=f"The attention mask is {keys} wide, no multiple of {_MULTIPLE}",
                location=place_of(report, call),
                evidence=[call.id],
                advice=Advice(
                    action=action,
                    why=f"{FROM_GRAPH} The mask is {shape(call.mask)}. The memory-efficient kernel wants aligned rows: "
                    "compiled code copies such a mask in each call, and some versions of torch stop with "
                    "`attn_bias is not correctly aligned`, in compiled code alone.",
                    link=_LINK,
                ),
            ),
        )


def _is_odd(mask: AttentionInput) -> bool:
    """Whether rows are known to begin at odd places; a mask that is a part of a wider one is fine."""
    width = mask.shape[-1] if mask.shape else None
    if not isinstance(width, int) or width % _MULTIPLE == 0 or width == 1:
        return False
    step = mask.stride[-2] if len(mask.stride) > 1 else width
    return isinstance(step, int) and step % _MULTIPLE != 0


def _rounded(keys: int | str) -> int:
    return -(-int(keys) // _MULTIPLE) * _MULTIPLE


RULE = Rule(
    id="attention-mask-alignment",
    title="A mask with unaligned rows",
    severity="warning",
    description=(
        "On CUDA the memory-efficient kernel reads a mask in aligned pieces. A mask whose last dimension is no "
        "multiple of 8 has to be copied first, and with compiled code this has failed."
    ),
    fix="Make the mask a multiple of 8 wide and pass the part of it that is needed: `mask[..., :keys]`.",
    example=Example(
        "mask = torch.zeros(batch, 1, queries, keys)",
        "wide = -(-keys // 8) * 8\nmask = torch.zeros(batch, 1, queries, wide)[..., :keys]",
    ),
    passed="Every attention mask on CUDA was aligned, or there was none.",
    judge=_judge,
)
