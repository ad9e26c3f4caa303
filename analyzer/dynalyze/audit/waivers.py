"""Which findings of a run count: those neither waived by the policy nor known by the baseline.

A baseline is a JSON of the findings that a project knows, by fingerprint, without any code: new ones fail.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dynalyze.audit.policy import Policy
from dynalyze.facts.fingerprints import fingerprints
from dynalyze.files.paths import portable_path
from dynalyze.files.read_write import read_document, read_input
from dynalyze.privacy import mask_secrets, redact
from dynalyze.report import Finding, Report
from dynalyze.report.audit import Waiver
from dynalyze.report.sensitivity import FilePath, Name, Word
from dynalyze.text.errors import UsageError
from dynalyze.text.json_text import json_text

_VERSION = 1
Key = tuple[str, tuple[str, ...], int, int]
"""Knows a finding again after a report was cleaned of what may not be shown: texts change, these do not."""

_CONCLUSIONS = ("all-eager", "nothing-compiled")
"""Rules that only draw a conclusion: to let their findings pass excuses none of the facts that they name."""


class Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding. All but the fingerprint is for people who read the file."""

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
class AuditBaseline:
    """The known findings, and their file."""

    source: str
    findings: tuple[Known, ...] = ()


def read_baseline(path: Path) -> AuditBaseline:
    """The baseline in a file; raises UsageError if it is unreadable, or of another version."""
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
    return AuditBaseline(str(path), tuple(document.findings))


def known_of(findings: list[Finding], report: Report) -> list[Known]:
    """These findings of a judged report as a baseline keeps them, in their order, without notes."""
    prints = dict(zip(map(id, report.findings), fingerprints(report), strict=True))
    known = []
    for finding in findings:
        if finding.severity != "info":
            place = finding.location
            at = (portable_path(place.file, report.folder), place.function) if place is not None else ()
            known.append(Known(prints[id(finding)], finding.rule, *at))
    return known


def to_json(findings: list[Known], *, hide_names: bool = False) -> str:
    """The baseline as indented JSON, sorted for readable diffs.

    It is read by its fingerprints, so names may be left out as --redact does.
    """
    ordered = sorted(findings, key=lambda known: (known.file, known.rule, known.function, known.fingerprint))
    document = mask_secrets(_Document(findings=ordered))
    return json_text(redact(document) if hide_names else document)


@dataclass(frozen=True)
class Excused:
    """The `findings` that do not count, and the facts that they are about. `waived` are the findings that each waiver
    covers, `new` those that a baseline lacks.
    """

    findings: frozenset[Key] = frozenset()
    facts: frozenset[str] = frozenset()
    waived: tuple[tuple[Waiver, frozenset[Key]], ...] = ()
    baseline: str = ""
    known: int = 0
    new: frozenset[Key] = frozenset()
    fixed: tuple[str, ...] = ()

    def counting(self, findings: Sequence[Finding]) -> list[Finding]:
        """Those neither waived nor known, of the very run that was judged."""
        return [finding for finding, key in zip(findings, _keys(findings), strict=True) if key not in self.findings]

    def waivers_and_new(self, report: Report) -> tuple[list[Waiver], list[str]]:
        """Waivers with the report's fingerprints of what they cover, and those of what the baseline lacks."""
        pairs = list(zip(_keys(report.findings), fingerprints(report), strict=True))
        waivers = [
            msgspec.structs.replace(waiver, findings=[found for key, found in pairs if key in keys])
            for waiver, keys in self.waived
        ]
        return waivers, [found for key, found in pairs if key in self.new]


def excused_findings(report: Report, policy: Policy, baseline: AuditBaseline | None = None) -> Excused:
    """What does not count today in a judged report: call it before anything is left out.

    Findings known by the baseline pass too; those that it lacks, and nobody waived, are new.
    """
    keys, today = _keys(report.findings), datetime.date.today()
    keyed = list(zip(report.findings, keys, strict=True))
    waived = []
    for rule in policy.waivers:
        covered = frozenset(key for finding, key in keyed if rule.covers(finding))
        waived.append((rule.waiver(len(covered), today), covered))
    passing = {key for waiver, covered in waived if not waiver.expired for key in covered}
    left: dict[str, list[Known]] = {}
    known, new = set[Key](), set[Key]()
    if baseline is not None:
        for each in baseline.findings:
            left.setdefault(each.fingerprint, []).append(each)
        for (finding, key), fingerprint in zip(keyed, fingerprints(report), strict=True):
            if left.get(fingerprint):
                left[fingerprint].pop(0)
                known.add(key)
            elif key not in passing and finding.severity != "info":
                new.add(key)
    passing |= known
    excusing = [finding for finding, key in keyed if key in passing and finding.rule not in _CONCLUSIONS]
    facts = frozenset(identity for finding in excusing for identity in finding.evidence)
    fixed = tuple(each.words for group in left.values() for each in group)
    return Excused(
        frozenset(passing), facts, tuple(waived), baseline.source if baseline is not None else "", len(known),
        frozenset(new), fixed if report.outcome.status == "complete" else (),
    )  # fmt: skip


def _keys(findings: Sequence[Finding]) -> list[Key]:
    """What identifies each finding whatever may be shown of it; equal ones are numbered."""
    seen: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    keys: list[Key] = []
    for finding in findings:
        plain = finding.rule, tuple(finding.evidence), finding.location.line if finding.location else 0
        keys.append((*plain, seen[plain]))
        seen[plain] += 1
    return keys
