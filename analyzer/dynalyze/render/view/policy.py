"""The section of the policy: the verdict of an audit, each check with what was asked for and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from dynalyze.render.view.links import Index, Link, Shown, shown
from dynalyze.report import Report
from dynalyze.report.audit import CheckStatus, PolicyCheck, PolicyVerdict
from dynalyze.text.visible import clipped
from dynalyze.words import policy as words

MAX_WAIVERS = 100
MAX_EVIDENCE = 10
_MAX_TEXT = 4000
_MAX_TARGET = 120
_TONES: dict[CheckStatus, str] = {"passed": "good", "failed": "bad", "unknown": "unknown", "waived": "warning"}


@dataclass(frozen=True)
class CheckRow:
    title: str
    name: str
    tone: str
    mark: str
    status: str
    limit: str
    found: str
    evidence: list[Link]
    evidence_omitted: int


@dataclass(frozen=True)
class PolicyView:
    passed: bool
    tone: str
    outcome: str
    headline: str
    rest: str
    advice: str
    checks: list[CheckRow]
    notes: list[str]
    waivers: list[str]
    amount: Shown


def policy_view(report: Report, links: Index) -> PolicyView | None:
    """The verdict as it was given; None where there was no policy."""
    verdict = report.policy
    if verdict is None:
        return None
    waivers, amount = shown(verdict.waivers, MAX_WAIVERS)
    headline, rest = _sentences(report.target.spec, verdict)
    return PolicyView(
        passed=verdict.passed,
        tone="good" if verdict.passed else "bad",
        outcome="Passed" if verdict.passed else "Failed",
        headline=headline,
        rest=rest,
        advice=clipped(verdict.advice, _MAX_TEXT),
        checks=[_row(check, links) for check in words.worst_first(verdict.checks)],
        notes=_notes(verdict),
        waivers=[clipped(words.waiver(each), _MAX_TEXT) for each in waivers],
        amount=amount,
    )


def _sentences(target: str, verdict: PolicyVerdict) -> tuple[str, str]:
    """The sentence to quote, with the target and the first of what failed, and what there is to say beside it."""
    name, told = clipped(target, _MAX_TARGET), clipped(words.details(verdict), _MAX_TEXT)
    if verdict.passed:
        return f"{name} passes its audit.", _sentence(told)
    first, _, rest = told.partition("; ")
    return f"{name} fails its audit{f': {first}' if first else ''}.", _sentence(rest)


def _sentence(told: str) -> str:
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def _row(check: PolicyCheck, links: Index) -> CheckRow:
    evidence, amount = shown(check.evidence, MAX_EVIDENCE)
    return CheckRow(
        title=words.title(check),
        name=check.name,
        tone="bad" if check.fails else _TONES[check.status],
        mark=words.MARKS[check.status],
        status=words.status(check),
        limit=check.limit,
        found=clipped(words.found(check), _MAX_TEXT),
        evidence=[links.fact(identity) for identity in evidence],
        evidence_omitted=amount.omitted,
    )


def _notes(verdict: PolicyVerdict) -> list[str]:
    told = (words.source(verdict), words.fixed(verdict))
    return [clipped(note, _MAX_TEXT) for note in told if note]
