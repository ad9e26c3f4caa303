"""Frames were tried, and every one of them fell back to eager."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Report
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    tried = report.compilations
    given_up = tried and all(compilation.status == "eager" for compilation in tried)
    if given_up and report.graph_breaks and report.outcome.status == "complete":
        yield (
            1,
            RULE.finding(
                title="Every function fell back to eager",
                location=tried[0].location,
                evidence=[b.id for b in report.graph_breaks],
                advice="Mend the graph breaks below: until then torch.compile gains nothing here.",
            ),
        )


RULE = Rule(
    id="all-eager",
    title="Every function fell back to eager",
    severity="error",
    description="Dynamo tried to compile and gave up on every frame, so the program runs in eager.",
    passed="At least one function was compiled.",
    judge=_judge,
)
