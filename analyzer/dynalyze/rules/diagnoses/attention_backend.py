"""Which kernels really compute scaled_dot_product_attention, where not all calls have the same."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.report.models import AttentionBackend, AttentionCall
from dynalyze.rules.report_queries import BACKENDS, FROM_GRAPH, counted, ids, place_of, sdpa_calls
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    by_backend: dict[AttentionBackend, list[AttentionCall]] = {}
    for call in sdpa_calls(report):
        by_backend.setdefault(call.backend, []).append(call)
    # One kernel for all calls is as it should be, or has a finding of its own; an unknown one is no news.
    if len(by_backend.keys() - {""}) > 1:
        yield 900, _finding(report, by_backend)


def _finding(report: Report, by_backend: dict[AttentionBackend, list[AttentionCall]]) -> Finding:
    parts = [
        f"{BACKENDS[backend]} ({counted(sum(call.count for call in calls), 'call')})"
        for backend, calls in by_backend.items()
    ]
    calls = [call for group in by_backend.values() for call in group]
    action = "Look at the calls that have another kernel than the rest: their types, masks and shapes chose it."
    if "" in by_backend:
        action = "What is unknown here is not in an ATen graph: compile with the default backend to see it."
    return RULE.finding(
        title=f"scaled_dot_product_attention is computed by {', '.join(parts)}",
        location=place_of(report, calls[0]),
        evidence=ids(calls),
        advice=Advice(
            action=action,
            why=f"{FROM_GRAPH} PyTorch chooses a kernel by device, types and shapes when a graph is made, and does not "
            "say which.",
        ),
    )


RULE = Rule(
    id="attention-backend",
    title="Several kernels for attention",
    severity="info",
    description=(
        "scaled_dot_product_attention is one name for several kernels. The ATen graph says which of them was taken for "
        "each call. Without such a graph (backend eager) it is unknown."
    ),
    fix="Look at the calls that have another kernel than the rest: their types, masks and shapes chose it.",
    passed="All calls of scaled_dot_product_attention have one kernel, or none is known: see `attention` in the JSON.",
    judge=_judge,
)
