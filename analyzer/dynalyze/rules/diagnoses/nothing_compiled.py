"""The run compiled nothing, so whatever was measured or served was eager PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Report
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    if report.outcome.status == "nothing_compiled":
        skipped = [frame for frame in report.skipped_frames if frame.entry]
        yield (
            0,
            RULE.finding(
                title="Nothing was compiled",
                location=skipped[0].location if skipped else None,
                evidence=[frame.id for frame in skipped],
                advice=report.outcome.message or "Call torch.compile, and call what it returns.",
            ),
        )


RULE = Rule(
    id="nothing-compiled",
    title="Nothing was compiled",
    severity="error",
    description="Not a single frame reached the compiler. The program ran as if torch.compile were not there.",
    passed="At least one frame reached the compiler.",
    judge=_judge,
)
