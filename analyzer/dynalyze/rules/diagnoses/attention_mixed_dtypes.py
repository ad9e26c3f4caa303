"""Query, key and value of different types in front of a kernel that takes one."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Report
from dynalyze.report.models import AttentionCall
from dynalyze.rules.report_queries import FROM_GRAPH, flash_calls, once, place_of, shown_version, version
from dynalyze.rules.rule import Rule

_NORM_IN_FLOAT32 = (2, 12)
_LINK = "https://github.com/huggingface/diffusers/issues/14104"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    return once(_found(report))


def _found(report: Report) -> Iterator[tuple[int, Finding]]:
    # PyTorch's own attention is put right by autocast, or refuses; other libraries' kernels are called as they are.
    for call in flash_calls(report):
        dtypes = _dtypes(call)
        if len(set(dtypes.values())) > 1:
            yield 60, _finding(report, call, dtypes)


def _dtypes(call: AttentionCall) -> dict[str, str]:
    inputs = {"query": call.query, "key": call.key, "value": call.value}
    return {name: tensor.dtype for name, tensor in inputs.items() if tensor is not None and tensor.dtype}


def _finding(report: Report, call: AttentionCall, dtypes: dict[str, str]) -> Finding:
    wanted = dtypes.get("value", "bfloat16")
    others = " and ".join(name for name, dtype in dtypes.items() if dtype != wanted)
    action = f"Cast {others} to value's {wanted} before the call: `query.to(value.dtype), key.to(value.dtype)`."
    return RULE.finding(
        title=f"FlashAttention is given {', '.join(f'{name} in {dtype}' for name, dtype in dtypes.items())}",
        location=place_of(report, call),
        evidence=[call.id],
        advice=Advice(
            action=action,
            why=f"{FROM_GRAPH} Its kernels take one type for all three. {_cause(report, call)}",
            link=_LINK,
        ),
    )


def _cause(report: Report, call: AttentionCall) -> str:
    graph = next((graph for graph in report.graphs if graph.id == call.graph), None)
    torch = version(report, "torch")
    if graph is not None and "rms_norm" in graph.histogram and torch >= _NORM_IN_FLOAT32:
        return (
            f"This graph has rms_norm, which autocast computes in float32 on CUDA since torch 2.12 "
            f"({shown_version(torch)} here): a norm on query and key leaves them in float32."
        )
    return "What made them differ is not in the graph."


RULE = Rule(
    id="attention-mixed-dtypes",
    title="Attention over different types",
    severity="warning",
    description=(
        "Kernels of other libraries want query, key and value in one type. Under autocast a norm on query and key may "
        "leave these two in float32 while value is bfloat16."
    ),
    fix="Cast query and key to the type of value before the call.",
    example=Example(
        "flash_attn_func(query, key, value)", "flash_attn_func(query.to(value.dtype), key.to(value.dtype), value)"
    ),
    passed="Query, key and value had one type wherever a kernel of flash-attn was called.",
    judge=_judge,
)
