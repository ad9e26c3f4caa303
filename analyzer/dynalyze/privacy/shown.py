"""What leaves dynalyze: a report cleaned as the user asked, then judged."""

from __future__ import annotations

from collections.abc import Callable

from dynalyze import privacy
from dynalyze.facts.fingerprints import add_fingerprints
from dynalyze.report import Report
from dynalyze.report.audit import PolicyVerdict
from dynalyze.rules.rule import judge


def showable(
    report: Report,
    conclude: Callable[[Report], PolicyVerdict] | None = None,
    /,
    *,
    no_source: bool,
    redact: bool,
    show_values: bool,
) -> Report:
    """A report cleaned and judged, its facts in their order. Rules see only what may be shown: they quote it.

    `conclude` gives the verdict of a policy on what the rules found; without it the one that is there stays.
    """
    report = privacy.mask_secrets(report)
    if not show_values:
        report = privacy.hide_values(report)
    if no_source:
        report = privacy.without_source(report)
    report.findings = judge(report)
    add_fingerprints(report)
    if conclude is not None:
        report.policy = conclude(report)
    return privacy.redact(report) if redact else report
