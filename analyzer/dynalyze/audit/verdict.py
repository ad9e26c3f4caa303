"""One verdict from everything that is known of a run, in the terms of a policy."""

from __future__ import annotations

import datetime
from pathlib import Path

from dynalyze.audit import counted, measured
from dynalyze.audit.baseline import Baseline
from dynalyze.audit.judging import Case
from dynalyze.audit.policy import Policy
from dynalyze.audit.sorting import Sorting, sort_findings
from dynalyze.audit_records import PolicyCheck, PolicyVerdict, Waiver
from dynalyze.report import Finding, Report, Status

_CHECKS = (
    measured.answers, counted.breaks, counted.recompiles, counted.after_warmup, counted.eager_frames, counted.findings,
    measured.speedup, measured.memory, measured.compile_seconds,
)  # fmt: skip
_ENDED: dict[Status, str] = {
    "failed": "the program failed", "timed_out": "the time limit ended the run", "interrupted": "the run was interrupted",
}  # fmt: skip
# What the finding of a rule says again where this check has said it.
_SAID_BY = {
    "graph-break": "max-graph-breaks", "recompile": "max-recompiles", "skipped-function": "max-eager-frames",
    "all-eager": "max-eager-frames",
}  # fmt: skip


def judge_policy(
    report: Report,
    policy: Policy,
    baseline: Baseline | None = None,
    *,
    sorting: Sorting | None = None,
    today: datetime.date | None = None,
) -> PolicyVerdict:
    """Whether the run may ship. The report was judged by the rules before.

    `sorting` is given where the report has been cleaned since its findings were sorted.
    """
    sorting = sorting or sort_findings(report, policy, baseline, today or datetime.date.today())
    case = Case(report, policy, sorting)
    checks = [_ran(case), *(check for make in _CHECKS if (check := make(case)) is not None)]
    passed = not any(_fails(check) for check in checks)
    return PolicyVerdict(
        passed=passed,
        summary=_passes(checks) if passed else _failure(case, checks),
        advice="" if passed else _advice(case, checks),
        source=policy.source,
        checks=checks,
        waivers=list(sorting.waivers),
        baseline=sorting.baseline,
        known=sorting.known,
        new=list(sorting.new),
        fixed=list(sorting.fixed),
    )


def _ran(case: Case) -> PolicyCheck:
    ended = _ENDED.get(case.report.outcome.status)
    limit = "the program runs to its end"
    return case.check("run", "failed", limit, ended) if ended else case.check("run", "passed", limit, "it ran to its end")


def _fails(check: PolicyCheck) -> bool:
    return check.status == "failed" or (check.status == "unknown" and check.asked)


def _passes(checks: list[PolicyCheck]) -> str:
    told = [check.found for check in checks if check.status in ("passed", "waived") and check.name not in ("run", "fail-on")]
    unknown = [check.name for check in checks if check.status == "unknown"]
    told += [f"not known: {', '.join(unknown)}"] if unknown else []
    return f"PASS: {'; '.join(told) or 'nothing was asked for'}"


def _failure(case: Case, checks: list[PolicyCheck]) -> str:
    failed = {check.name for check in checks if check.status == "failed"}
    told = []
    for check in filter(_fails, checks):
        if check.status == "unknown":
            told.append(f"{check.name} is asked for and not known ({check.reason})")
        elif check.name == "fail-on":
            told += [counted.findings_words(left)] if (left := _not_said(case, failed)) else []
        else:
            told.append(check.found)
    told += [_expired(waiver) for waiver in case.sorting.waivers if waiver.expired and waiver.used]
    return f"FAIL: {'; '.join(told)}"


def _not_said(case: Case, failed: set[str]) -> list[Finding]:
    """Findings that fail and that no other failed check tells of."""
    reached = counted.failing(case.sorting.counting(case.report.findings), case.policy.fail_on)
    return [finding for finding in reached if _SAID_BY.get(finding.rule) not in failed]


def _expired(waiver: Waiver) -> str:
    return f"the waiver of {waiver.rule} expired on {waiver.expires}"


def _advice(case: Case, checks: list[PolicyCheck]) -> str:
    """That of the first finding that made a check fail: findings come worst first."""
    wanted = {identity for check in filter(_fails, checks) for identity in check.evidence}
    counting = case.sorting.counting(case.report.findings)
    reached = {id(finding) for finding in counted.failing(counting, case.policy.fail_on)}
    for finding in counting:
        if id(finding) in reached or wanted & set(finding.evidence):
            place = finding.location
            return f"{Path(place.file).name}:{place.line}: {finding.advice}" if place is not None else finding.advice
    return ""
