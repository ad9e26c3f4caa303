"""Answers, or single operations, that are wrong beyond what rounding explains."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dynalyze.facts.wrong_numbers import search_of, wrong_answers, wrong_operation
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Bisection
from dynalyze.report.measurements import Accuracy
from dynalyze.rules.rule import Rule
from dynalyze.rules.wrong_answers import advice, has_nan, place

_RANK = 1
_RANK_OF_OPERATIONS = 60


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for test in report.accuracy:
        if test.verdict == "suspicious" and not has_nan(test):
            yield _RANK, _wrong(test, search_of(test, report.bisections))
    for found in report.bisections:
        if found.hidden and found.op:
            yield _RANK_OF_OPERATIONS, _hidden(found)


def _wrong(test: Accuracy, found: Bisection | None) -> Finding:
    told = advice(found)
    return RULE.finding(
        title=f"{test.configuration}, {test.phase}: {wrong_answers(test, found)}",
        location=place(found),
        advice=msgspec.structs.replace(told, action=f"{test.reason} {told.action}".strip()),
    )


def _hidden(found: Bisection) -> Finding:
    told = advice(found)
    errors = ""
    if found.eager_rmse is not None and found.compiled_rmse is not None:
        errors = f" Its error against fp64 is {found.compiled_rmse:.3g}, that of eager {found.eager_rmse:.3g}."
    return RULE.finding(
        title=f"{found.configuration}, {found.phase}: {wrong_operation(found)}",
        rule="accuracy-operation",
        severity="warning",
        location=place(found),
        advice=msgspec.structs.replace(told, action=f"{told.action}{errors} Other inputs or weights may not hide it."),
    )


RULE = Rule(
    id="accuracy-suspicious",
    title="Answers that rounding does not explain",
    severity="error",
    description=(
        "The compiled answers, or gradients, are further from fp64 than those of eager, and not by rounding; "
        "or they have another dtype or shape. The stage of the compiler, the module and the operation are named where "
        "a search found them. accuracy-operation, a warning, is one operation that is wrong while the answers are not: "
        "what comes after it rounds more."
    ),
    passed="Compiled answers are as near to fp64 as those of eager, as far as they were tested.",
    judge=_judge,
    more_ids=("accuracy-operation",),
)
