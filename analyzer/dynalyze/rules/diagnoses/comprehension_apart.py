"""A comprehension that was compiled by itself, because the function around it runs in eager."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.rules.break_owners import owned, severity_of
from dynalyze.rules.rule import Rule

_RANK = 390
_FIX = (
    "End what leaves the function around it in eager: the other findings on the way to this line. Leave the "
    "comprehension as it is."
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for found in owned(report, "comprehension-apart"):
        yield (
            _RANK,
            Finding(
                rule="comprehension-apart",
                severity="error" if severity_of([found]) == "error" else "info",
                title="A comprehension was compiled by itself, and cannot be",
                location=found.location,
                evidence=[found.id],
                advice=_FIX,
                detail=Advice(
                    action=_FIX,
                    why="Seen in this run. Up to Python 3.11 a comprehension is a function of its own. Where the "
                    "function around it is compiled it is a part of that; where that one runs in eager, torch tries to "
                    "compile the comprehension alone, and cannot follow the iterator that it is given.",
                ),
            ),
        )


RULE = Rule(
    id="comprehension-apart",
    title="A comprehension compiled by itself",
    severity="info",
    description=(
        "Up to Python 3.11 a comprehension is a function of its own. Where the function around it runs in eager, "
        "because of another break, torch tries to compile the comprehension alone, which fails. It is a consequence, "
        "not a cause."
    ),
    fix=_FIX,
    passed="No comprehension was compiled by itself.",
    judge=_judge,
    of=("graph-break",),
)
