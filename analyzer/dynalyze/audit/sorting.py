"""Which findings of a run count: neither waived by the policy nor known by the baseline."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dynalyze.audit.baseline import Baseline, missing
from dynalyze.audit.policy import Policy
from dynalyze.audit_records import Waiver
from dynalyze.fingerprints import fingerprints
from dynalyze.report import Finding, Report

Key = tuple[str, tuple[str, ...], int, int]
"""Knows a finding again after a report was cleaned of what may not be shown: texts change, these do not."""

_OF_BREAKS = ("graph-break",)
_OF_RECOMPILES = ("recompile", "recompile-limit")
_OF_SKIPPED = ("skipped-function",)


@dataclass(frozen=True)
class Sorting:
    """`excused` findings do not count, and neither do the facts that they are about."""

    excused: frozenset[Key] = frozenset()
    facts: frozenset[str] = frozenset()
    waivers: tuple[Waiver, ...] = ()
    baseline: str = ""
    known: int = 0
    new: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def counting(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those that are neither waived nor known, of the very run that was sorted."""
        return [finding for finding, key in zip(findings, _keys(findings), strict=True) if key not in self.excused]


def sort_findings(report: Report, policy: Policy, baseline: Baseline | None, today: datetime.date) -> Sorting:
    """Sort the findings of a judged report, by all that is known of them: call it before anything is left out."""
    prints = fingerprints(report)
    waived = [_waived(policy, finding, today) for finding in report.findings]
    left = Counter(known.fingerprint for known in baseline.findings) if baseline else Counter[str]()
    excused, keys, known, new = [], [], 0, []
    for finding, key, fingerprint, is_waived in zip(
        report.findings, _keys(report.findings), prints, waived, strict=True
    ):
        is_known = left[fingerprint] > 0
        left[fingerprint] -= is_known
        known += is_known
        if is_waived or is_known:
            excused.append(finding)
            keys.append(key)
        elif baseline is not None and finding.severity != "info":
            new.append(fingerprint)
    gone = missing(baseline, prints) if baseline and report.outcome.status == "complete" else []
    return Sorting(
        excused=frozenset(keys),
        facts=_facts(excused),
        waivers=_told(policy, report.findings, today),
        baseline=baseline.source if baseline else "",
        known=known,
        new=tuple(new),
        fixed=tuple(each.words for each in gone),
    )


def _keys(findings: Sequence[Finding]) -> list[Key]:
    """What each finding keeps whatever may be shown of it; those that are alike in that are numbered."""
    seen: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    keys: list[Key] = []
    for finding in findings:
        plain = finding.rule, tuple(finding.evidence), finding.location.line if finding.location else 0
        keys.append((*plain, seen[plain]))
        seen[plain] += 1
    return keys


def _waived(policy: Policy, finding: Finding, today: datetime.date) -> bool:
    return any(rule.covers(finding) and not rule.expired(today) for rule in policy.waivers)


def _told(policy: Policy, findings: list[Finding], today: datetime.date) -> tuple[Waiver, ...]:
    return tuple(rule.told(sum(map(rule.covers, findings)), today) for rule in policy.waivers)


def _facts(findings: list[Finding]) -> frozenset[str]:
    """The facts that are excused with these findings. One that draws a conclusion from others excuses none of them."""
    about = (*_OF_BREAKS, *_OF_RECOMPILES, *_OF_SKIPPED)
    return frozenset(identity for finding in findings if finding.rule in about for identity in finding.evidence)
