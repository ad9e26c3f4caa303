"""A comprehension that was compiled by itself, because the function around it runs in eager."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, GraphBreak, Report
from dynalyze.rules.rule import Rule, severity_of

_RANK = 390
# Functions of their own up to Python 3.11.
_COMPREHENSIONS = ("<dictcomp>", "<listcomp>", "<setcomp>", "<genexpr>")
_FIX = (
    "End what leaves the function around it in eager: the other findings on the way to this line. Leave the "
    "comprehension as it is."
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for found in RULE.breaks(report):
        yield (
            _RANK,
            RULE.finding(
                title="A comprehension was compiled by itself, and cannot be",
                severity="error" if severity_of([found]) == "error" else "info",
                location=found.location,
                evidence=[found.id],
                advice=Advice(
                    action=_FIX,
                    why="Seen in this run. Up to Python 3.11 a comprehension is a function of its own. Where the "
                    "function around it is compiled it is a part of that; where that one runs in eager, torch tries to "
                    "compile the comprehension alone, and cannot follow the iterator that it is given.",
                ),
            ),
        )


def _owned_breaks(report: Report) -> Iterator[GraphBreak]:
    """What torch says of the iterator, in frames that hold nothing but a comprehension."""
    alone = {(c.process, c.epoch, c.compile_id) for c in report.compilations if c.function in _COMPREHENSIONS}
    for each in report.graph_breaks:
        frames = {(each.process, each.epoch, compile_id) for compile_id in each.compile_ids}
        if each.gb_type.startswith("Missing tp_iternext") and frames and frames <= alone:
            yield each


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
    owns_breaks=_owned_breaks,
    precedence=2,
)
