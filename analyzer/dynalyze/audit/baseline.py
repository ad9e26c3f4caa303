"""The findings that a project knows of: they pass, new ones do not. Kept as JSON, by fingerprint, without any code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dynalyze.facts.fingerprints import fingerprints
from dynalyze.files.paths import portable_path
from dynalyze.files.read_write import read_document, read_input
from dynalyze.privacy import mask_secrets, redact
from dynalyze.report import Finding, Report
from dynalyze.report.held import FilePath, Name, Word
from dynalyze.text.errors import UsageError
from dynalyze.text.json_text import json_text

_VERSION = 1


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
