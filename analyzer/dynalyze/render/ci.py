"""What the outputs for CI share: which findings count against a run."""

from __future__ import annotations

from dynalyze.facts.fingerprints import fingerprints
from dynalyze.report import Finding, Report
from dynalyze.words.report import only_measured

ENDED_WELL = ("complete", "nothing_compiled")
"""Statuses of a run in which everything that would be compiled was."""


def waived(report: Report) -> dict[str, str]:
    """The reason for each finding that the policy lets pass, by its fingerprint."""
    waivers = report.policy.waivers if report.policy is not None else []
    return {found: waiver.reason for waiver in waivers if not waiver.expired for found in waiver.findings}


def is_known(report: Report, found: str) -> bool:
    """Whether the baseline holds a finding of this fingerprint; without a baseline nothing is known."""
    policy = report.policy
    return policy is not None and bool(policy.baseline) and found not in policy.new


def counting(report: Report) -> list[Finding]:
    """The findings that are neither waived nor in the baseline."""
    passed = waived(report)
    pairs = zip(report.findings, fingerprints(report), strict=True)
    return [finding for finding, found in pairs if found not in passed and not is_known(report, found)]


def listened_to_the_end(report: Report) -> bool:
    """Whether a rule that found nothing found that nothing is there."""
    return report.outcome.status == "complete" and not only_measured(report)
