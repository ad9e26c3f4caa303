"""Answers that could not be compared, with the reason."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.report.measurements import Accuracy
from dynalyze.rules.rule import Rule

_RANK = 700
_OTHERWISE = "Nothing is known of its answers. Compare them by what your task counts, the loss or a score."
# What the reason says, and what helps.
_ADVICE = (
    ("random numbers", "Switch dropout and sampling off (`model.eval()`), or draw the noise outside of the model."),
    ("each time", "Eager gives something else each time: seed it, or test a part of the model that draws nothing."),
    ("same way twice", "Eager gives something else each time: seed it, or test a part that draws nothing."),
    ("near tie", "Test `--phase prefill` or `decode`: they compare logits, not tokens."),
    ("memory", "Test a smaller batch, fewer layers, or a machine with more memory: fp64 needs 2 to 4 times as much."),
    ("far from fp64", "In this dtype eager itself is not near the exact answer: test it in float32."),
)  # fmt: skip


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for test in report.accuracy:
        if test.verdict == "not comparable":
            yield _RANK, _finding(test)


def _finding(test: Accuracy) -> Finding:
    action = next((advice for words, advice in _ADVICE if words in test.reason), _OTHERWISE)
    return RULE.finding(
        title=f"{test.configuration}, {test.phase}: the answers could not be compared",
        advice=Advice(
            action=f"{test.reason} {action}".strip(),
            why="The test ran and could not decide; this says nothing against the answers.",
        ),
    )


RULE = Rule(
    id="accuracy-not-comparable",
    title="Answers that could not be compared",
    severity="info",
    description=(
        "Whether compiled is as right as eager cannot be told here: other random numbers were drawn, eager differs "
        "from itself, memory ran out, or a run failed. The reason is with the finding."
    ),
    passed="Every test of answers could be decided.",
    judge=_judge,
)
