"""The program ran to its end, but part of what torch compiled in it went unrecorded."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Report
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    if report.outcome.status == "incomplete":
        yield (
            0,
            RULE.finding(
                title="Part of the run was not recorded",
                advice=f"{report.outcome.message} What is told here is right, but something is missing: that nothing "
                "else broke or compiled again cannot be told from it.",
            ),
        )


RULE = Rule(
    id="incomplete-record",
    title="Part of the run was not recorded",
    severity="error",
    description="torch compiled more than was heard, or an event could not be written.",
    passed="All that torch counted was recorded.",
    judge=_judge,
)
