"""Which kernel really computes each scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.model_facts import AttentionBackend, AttentionCall
from dynalyze.report import Advice, Finding, Report
from dynalyze.rules.attention_calls import BACKENDS, FROM_GRAPH, counted, ids, place_of, sdpa_calls
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    by_backend: dict[AttentionBackend, list[AttentionCall]] = {}
    for call in sdpa_calls(report):
        by_backend.setdefault(call.backend, []).append(call)
    if by_backend and set(by_backend) != {""}:
        yield 900, _finding(by_backend)


def _finding(by_backend: dict[AttentionBackend, list[AttentionCall]]) -> Finding:
    parts = [
        f"{BACKENDS[backend]} ({counted(sum(call.count for call in calls), 'call')})"
        for backend, calls in by_backend.items()
    ]
    calls = [call for group in by_backend.values() for call in group]
    action = "Nothing to do: this is what the compiled code calls."
    if "" in by_backend:
        action = "What is unknown here is not in an ATen graph: compile with the default backend to see it."
    return Finding(
        rule="attention-backend",
        severity="info",
        title=f"scaled_dot_product_attention is computed by {', '.join(parts)}",
        location=place_of(calls[0]),
        evidence=ids(calls),
        advice=action,
        detail=Advice(
            action=action,
            why=f"{FROM_GRAPH} PyTorch chooses a kernel by device, types and shapes when a graph is made, and does not "
            "say which.",
        ),
    )


RULE = Rule(
    id="attention-backend",
    title="The kernel of attention",
    severity="info",
    description=(
        "scaled_dot_product_attention is one name for several kernels. The ATen graph says which of them was taken for "
        "each call. Without such a graph (backend eager) it is unknown."
    ),
    passed="No scaled_dot_product_attention, or no ATen graph that would tell its kernel.",
    judge=_judge,
)
