"""`--fail-on` of a sweep: a level of findings, a rule, or a status of items."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dynalyze.report import Finding
from dynalyze.rules.rule import reaches, rules
from dynalyze.sweep.records import STATUSES, Sweep
from dynalyze.text.errors import UsageError

_LEVELS = ("error", "warning", "info", "none")


class _Findings(msgspec.Struct):
    """All that is read of a report."""

    findings: list[Finding] = []


def check(text: str) -> None:
    """Refuse what no item can meet.

    Raises:
        UsageError: neither a level, nor a rule, nor a status.
    """
    known = [*_LEVELS, *STATUSES, *(rule_id for rule in rules() for rule_id in rule.ids)]
    for word in _words(text):
        if word not in known:
            raise UsageError(f"--fail-on {word}: choose from {', '.join(known)}")


def met(sweep: Sweep, folder: Path, text: str) -> bool:
    """Whether an item has such a status, or its report such a finding. A report that cannot be read has none."""
    words = _words(text)
    if any(row.status in words for row in sweep.items):
        return True
    levels = [word for word in words if word not in STATUSES and word != "none"]
    reports = [folder / row.report for row in sweep.items if row.report] if levels else []
    return any(reaches(findings, level) for path in reports for findings in [_findings(path)] for level in levels)


def _findings(path: Path) -> list[Finding]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Findings).findings
    except (OSError, msgspec.DecodeError, RecursionError):
        return []


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] or ["none"]
