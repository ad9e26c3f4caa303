"""Shapes that compile again although the warm-up has called every one of them: requests will wait for the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dynalyze.report import Advice, Finding, Impact, Report
from dynalyze.report.audit import Warmup
from dynalyze.rules.recompile_advice import advise, what_changed
from dynalyze.rules.rule import Rule
from dynalyze.rules.warmup_series import SIZE_CAUSES, Changed, changes, shape_text, shapes_count, shapes_text

_RANK = 5
_MOST_EVIDENCE = 8
_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    warmup = report.warmup
    if warmup is None or warmup.reason:
        return
    for changed in changes(warmup.after_warmup):
        yield _RANK, _finding(changed, warmup)


def _finding(changed: Changed, warmup: Warmup) -> Finding:
    advice = _advice(changed, warmup)
    return RULE.finding(
        title=f"{_what(changed)}: {len(changed.runs):,} of {shapes_count(len(warmup.calls))} "
        f"{'compiles' if len(changed.runs) == 1 else 'compile'} after warm-up",
        location=changed.location,
        evidence=[shape_text(run) for run in changed.runs[:_MOST_EVIDENCE]],
        advice=advice,
        impact=_impact(changed),
    )


def _what(changed: Changed) -> str:
    series = changed.series()
    if series is None:
        return "No failed guard is known"
    return what_changed(series)


def _advice(changed: Changed, warmup: Warmup) -> Advice:
    series = changed.series()
    shapes = f"It happened with {shapes_text(changed.runs)}."
    why = (
        f"Seen in the run: every shape was called once, in order. Then all were called again in another order, and "
        f"these compiled once more. {shapes} Whatever changes from call to call does so in production too, and a "
        "request waits for the compiler."
    )
    if series is None:
        action = "Find out what these calls do that those of the warm-up did not, and call that in the warm-up too."
        return Advice(action=action, why=why, link=_LINK)
    advice = advise(series)
    own = f" {warmup.dynamic_advice}." if warmup.dynamic_advice and _is_a_size(changed) else ""
    return msgspec.structs.replace(advice, action=f"{advice.action}{own}", why=f"{why} {advice.why}")


def _is_a_size(changed: Changed) -> bool:
    return changed.lead is not None and changed.lead.cause in SIZE_CAUSES


def _impact(changed: Changed) -> Impact | None:
    """How long the calls took that compiled; steady ones take next to nothing of it."""
    seconds = sum(run.milliseconds for run in changed.runs) / 1000
    return Impact(round(seconds, 6), "taken by calls that compiled after warm-up") if seconds else None


RULE = Rule(
    id="compiles-after-warmup",
    title="It compiles after warm-up",
    severity="error",
    description=(
        "`dynalyze audit --shapes` calls the model once with every shape that production sends, and then again with "
        "all of them in another order. Nothing may compile in the second round: a request that meets the compiler "
        "waits for seconds or minutes."
    ),
    passed="No call compiled anything after the warm-up, as far as one was made (--shapes).",
    judge=_judge,
)
