"""NaN and infinities that eager does not have."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dynalyze.facts.wrong_numbers import search_of, wrong_answers
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Bisection
from dynalyze.report.measurements import Accuracy
from dynalyze.rules.rule import Rule
from dynalyze.rules.wrong_answers import advice, has_nan, place


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for test in report.accuracy:
        if has_nan(test):
            yield 0, _finding(test, search_of(test, report.bisections))


def _finding(test: Accuracy, found: Bisection | None) -> Finding:
    worst = max(test.tensors, key=lambda tensor: tensor.nonfinite)
    what = f"{'the gradient of ' if worst.kind == 'gradient' else ''}{worst.name}"
    told = advice(found)
    return RULE.finding(
        title=f"{test.configuration}, {test.phase}: {wrong_answers(test, found)}",
        location=place(found),
        advice=msgspec.structs.replace(
            told, action=f"{worst.nonfinite:,} values of {what} are NaN or infinite. {told.action}"
        ),
    )


RULE = Rule(
    id="compile-makes-nan",
    title="Compiling makes NaN or infinities",
    severity="error",
    description=(
        "Eager's values are finite and the compiled ones are not. That is an error whatever else was measured: it "
        "spreads through all that is computed from them."
    ),
    passed="Compiling made no NaN and no infinity, as far as answers were tested.",
    judge=_judge,
)
