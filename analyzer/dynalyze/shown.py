"""What leaves dynalyze: a report cleaned as the user asked, then judged."""

from __future__ import annotations

from dynalyze import privacy
from dynalyze.report import Report
from dynalyze.rules.rule import judge


def showable(report: Report, *, no_source: bool, redact: bool, show_values: bool) -> Report:
    """A report cleaned and judged, its facts in their order. Rules see only what may be shown: they quote it."""
    report = privacy.mask_secrets(report)
    if not show_values:
        report = privacy.hide_values(report)
    if no_source:
        report = privacy.without_source(report)
    report.findings = judge(report)
    return privacy.redact(report) if redact else report
