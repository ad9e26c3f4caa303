"""Which findings of a run count: neither waived by the policy nor known by the baseline.

A baseline is a JSON of the findings that a project knows of, by fingerprint, without any code: new ones fail.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from dynalyze.audit.policy import Policy
from dynalyze.facts.fingerprints import fingerprints
from dynalyze.files.paths import portable_path
from dynalyze.files.read_write import read_document, read_input
from dynalyze.privacy import mask_secrets, redact
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Waiver
from dynalyze.report.held import FilePath, Name, Word
from dynalyze.text.errors import UsageError
from dynalyze.text.json_text import json_text

_VERSION = 1
Key = tuple[str, tuple[str, ...], int, int]
"""Knows a finding again after a report was cleaned of what may not be shown: texts change, these do not."""

_CONCLUSIONS = ("all-eager", "nothing-compiled")
"""Rules that only draw a conclusion: to let their findings pass excuses none of the facts that they name."""


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. All but the fingerprint is there for people who read the file."""

    fingerprint: Word
    rule: Word
    file: FilePath = ""
    function: Name = ""

    @property
    def words(self) -> str:
        """`graph-break in forward (model.py)`."""
        inside = f" in {self.function}" if self.function else ""
        return f"{self.rule}{inside}{f' ({Path(self.file).name})' if self.file else ''}"


class _Document(msgspec.Struct, kw_only=True):
    baseline_version: int = _VERSION
    findings: list[Known]


@dataclass(frozen=True)
class Baseline:
    """What is known, and the file it stands in."""

    source: str
    findings: tuple[Known, ...] = ()


def read_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: unreadable, or no baseline of this version; one line that says how to write one.
    """
    try:
        document = read_document(read_input(path), _Document)
    except FileNotFoundError as error:
        raise UsageError(f"--baseline {path}: no such file; --update-baseline writes it") from error
    except OSError as error:
        raise UsageError(f"--baseline {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"--baseline {path} is not a baseline of dynalyze: {error}") from error
    if document.baseline_version != _VERSION:
        raise UsageError(
            f"--baseline {path}: its baseline_version is {document.baseline_version}, this dynalyze reads {_VERSION}"
        )
    return Baseline(str(path), tuple(document.findings))


def known_of(findings: list[Finding], report: Report) -> list[Known]:
    """These findings of a judged report as a baseline keeps them, in their order; notes are none of its business."""
    prints = dict(zip(map(id, report.findings), fingerprints(report), strict=True))
    return [_known(prints[id(each)], each, report.folder) for each in findings if each.severity != "info"]


def to_json(findings: list[Known], *, hide_names: bool = False) -> str:
    """The baseline as indented JSON, sorted, so that a change of it reads well in a diff.

    It is read by its fingerprints, so that names may be left out as --redact leaves them out.
    """
    ordered = sorted(findings, key=lambda known: (known.file, known.rule, known.function, known.fingerprint))
    document = mask_secrets(_Document(findings=ordered))
    return json_text(redact(document) if hide_names else document)


def missing(baseline: Baseline, found: list[str]) -> list[Known]:
    """What the baseline holds and the run does not show: it was mended."""
    left = Counter(found)
    gone = []
    for known in baseline.findings:
        if left[known.fingerprint]:
            left[known.fingerprint] -= 1
        else:
            gone.append(known)
    return gone


def _known(fingerprint: str, finding: Finding, folder: str) -> Known:
    place = finding.location
    if place is None:
        return Known(fingerprint, finding.rule)
    return Known(fingerprint, finding.rule, portable_path(place.file, folder), place.function)


@dataclass(frozen=True)
class Excused:
    """These `findings` do not count, and neither do the facts that they are about. `waived` are the findings that
    each waiver covers, `new` those that a baseline lacks.
    """

    findings: frozenset[Key] = frozenset()
    facts: frozenset[str] = frozenset()
    waived: tuple[tuple[Waiver, frozenset[Key]], ...] = ()
    baseline: str = ""
    known: int = 0
    new: frozenset[Key] = frozenset()
    fixed: tuple[str, ...] = ()

    def counting(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those that are neither waived nor known, of the very run that was judged."""
        return [finding for finding, key in zip(findings, _keys(findings), strict=True) if key not in self.findings]

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


def excused_findings(report: Report, policy: Policy, baseline: Baseline | None = None) -> Excused:
    """What of a judged report does not count today, by all that is known of it: call it before anything is left out."""
    keys = _keys(report.findings)
    waived = _waived(policy, report.findings, keys, datetime.date.today())
    passing = frozenset(key for waiver, covered in waived if not waiver.expired for key in covered)
    facts = _facts(report.findings, keys, passing)
    excused = Excused(findings=passing, facts=facts, waived=waived)
    return excused if baseline is None else _against(baseline, excused, report, keys)


def _against(baseline: Baseline, excused: Excused, report: Report, keys: list[Key]) -> Excused:
    """What the baseline knows passes too; what it lacks, and nobody waived, is new."""
    prints = fingerprints(report)
    left = Counter(known.fingerprint for known in baseline.findings)
    known, new = set[Key](), set[Key]()
    for finding, key, fingerprint in zip(report.findings, keys, prints, strict=True):
        if left[fingerprint] > 0:
            left[fingerprint] -= 1
            known.add(key)
        elif key not in excused.findings and finding.severity != "info":
            new.add(key)
    passing = excused.findings | known
    return replace(
        excused,
        findings=passing,
        facts=_facts(report.findings, keys, passing),
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
