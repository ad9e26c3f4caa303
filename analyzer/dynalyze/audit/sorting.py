"""Which findings of a run count: neither waived by the policy nor known by the baseline."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from dynalyze.audit.baseline import Baseline, missing
from dynalyze.audit.policy import Policy
from dynalyze.facts.fingerprints import fingerprints
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Waiver

Key = tuple[str, tuple[str, ...], int, int]
"""Knows a finding again after a report was cleaned of what may not be shown: texts change, these do not."""

_CONCLUSIONS = ("all-eager", "nothing-compiled")
"""Rules that only draw a conclusion: to let their findings pass excuses none of the facts that they name."""


@dataclass(frozen=True)
class Sorting:
    """`excused` findings do not count, and neither do the facts that they are about. `waived` are the findings that
    each waiver covers, `new` those that a baseline lacks.
    """

    excused: frozenset[Key] = frozenset()
    facts: frozenset[str] = frozenset()
    waived: tuple[tuple[Waiver, frozenset[Key]], ...] = ()
    baseline: str = ""
    known: int = 0
    new: frozenset[Key] = frozenset()
    fixed: tuple[str, ...] = ()

    def counting(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those that are neither waived nor known, of the very run that was sorted."""
        return [finding for finding, key in zip(findings, _keys(findings), strict=True) if key not in self.excused]

    def told_waivers(self, report: Report) -> list[Waiver]:
        """The waivers with the fingerprints of the findings that they cover, as the report has these."""
        return [msgspec.structs.replace(waiver, findings=self._prints(report, keys)) for waiver, keys in self.waived]

    def told_new(self, report: Report) -> list[str]:
        """The fingerprints of what the baseline lacks, as the report has them."""
        return self._prints(report, self.new)

    @staticmethod
    def _prints(report: Report, keys: frozenset[Key]) -> list[str]:
        pairs = zip(_keys(report.findings), fingerprints(report), strict=True)
        return [found for key, found in pairs if key in keys]


def sort_findings(report: Report, policy: Policy, baseline: Baseline | None, today: datetime.date) -> Sorting:
    """Sort the findings of a judged report, by all that is known of them: call it before anything is left out."""
    keys = _keys(report.findings)
    waived = _waived(policy, report.findings, keys, today)
    passing = frozenset(key for waiver, covered in waived if not waiver.expired for key in covered)
    facts = _facts(report.findings, keys, passing)
    sorting = Sorting(excused=passing, facts=facts, waived=waived)
    return sorting if baseline is None else _against(baseline, sorting, report, keys)


def _against(baseline: Baseline, sorting: Sorting, report: Report, keys: list[Key]) -> Sorting:
    """What the baseline knows passes too; what it lacks, and nobody waived, is new."""
    prints = fingerprints(report)
    left = Counter(known.fingerprint for known in baseline.findings)
    known, new = set[Key](), set[Key]()
    for finding, key, fingerprint in zip(report.findings, keys, prints, strict=True):
        if left[fingerprint] > 0:
            left[fingerprint] -= 1
            known.add(key)
        elif key not in sorting.excused and finding.severity != "info":
            new.add(key)
    excused = sorting.excused | known
    return replace(
        sorting,
        excused=excused,
        facts=_facts(report.findings, keys, excused),
        baseline=baseline.source,
        known=len(known),
        new=frozenset(new),
        fixed=tuple(each.words for each in missing(baseline, prints)) if report.outcome.status == "complete" else (),
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


def _waived(
    policy: Policy, findings: list[Finding], keys: list[Key], today: datetime.date
) -> tuple[tuple[Waiver, frozenset[Key]], ...]:
    told = []
    for rule in policy.waivers:
        covered = frozenset(key for finding, key in zip(findings, keys, strict=True) if rule.covers(finding))
        told.append((rule.told(len(covered), today), covered))
    return tuple(told)


def _facts(findings: list[Finding], keys: list[Key], excused: frozenset[Key]) -> frozenset[str]:
    return frozenset(
        identity
        for finding, key in zip(findings, keys, strict=True)
        if key in excused and finding.rule not in _CONCLUSIONS
        for identity in finding.evidence
    )
