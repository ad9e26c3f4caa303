"""One verdict from everything that is known of a run, in the terms of a policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dynalyze.audit.checks import CHECKS, Case, failing, findings_words
from dynalyze.audit.excused import Baseline, Excused, excused_findings
from dynalyze.audit.policy import Policy
from dynalyze.report import Report, Status
from dynalyze.report.audit import PolicyCheck, PolicyVerdict
from dynalyze.rules.rule import judge
from dynalyze.words.policy import title

_ENDED: dict[Status, str] = {
    "failed": "the program failed",
    "timed_out": "the time limit ended the audit",
    "interrupted": "the audit was interrupted",
    "incomplete": "part of what torch compiled was not recorded",
}
_RUN, _FINDINGS = "run", "fail-on"
_UNSAID = (_RUN, _FINDINGS)
"""What goes without saying where it passed."""
# What the finding of a rule says again where this check has said it.
_SAID_BY = {
    "graph-break": "max-graph-breaks", "recompile": "max-recompiles", "skipped-function": "max-eager-frames",
    "all-eager": "max-eager-frames", "accuracy-suspicious": "accuracy", "accuracy-operation": "accuracy",
    "compiles-after-warmup": "max-recompiles-after-warmup",
}  # fmt: skip


def judged(report: Report) -> Report:
    """The report with what the rules find in all of it, before anything is left out. Shares its facts."""
    whole = msgspec.structs.replace(report, capture=msgspec.structs.replace(report.capture, notes=[]))
    whole.findings = judge(whole)
    return whole


def conclusion(report: Report, policy: Policy, baseline: Baseline | None) -> Callable[[Report], PolicyVerdict]:
    """What gives the verdict on a report once it has been cleaned of what may not be shown.

    Waivers and baseline are matched here and now, with the code and all values at hand: leaving these out of a report
    changes nothing in its verdict.
    """
    excused = excused_findings(judged(report), policy, baseline)
    return lambda shown: judge_policy(shown, policy, excused=excused)


def judge_policy(
    report: Report, policy: Policy, baseline: Baseline | None = None, *, excused: Excused | None = None
) -> PolicyVerdict:
    """Whether the run may ship. The report was judged by the rules before.

    `excused` is given where the report has been cleaned since its findings were matched.
    """
    excused = excused or excused_findings(report, policy, baseline)
    case = Case(report, policy, excused)
    ended = _ENDED.get(report.outcome.status)
    ran = case.check(
        _RUN, "failed" if ended else "passed", "everything comes to its end", ended or "it came to its end"
    )
    limits = ((check, field.replace("_", "-"), getattr(policy, field)) for field, check in CHECKS.items())
    found = (check(case, name, limit) for check, name, limit in limits if limit not in (None, ()))
    checks = [ran, *(check for check in found if check is not None)]
    passed = not any(check.fails for check in checks)
    waivers, new = excused.waivers_and_new(report)
    return PolicyVerdict(
        passed, _success(checks) if passed else _failure(case, checks), "" if passed else _advice(case, checks),
        policy.source, checks, waivers, excused.baseline, excused.known, new, list(excused.fixed),
    )  # fmt: skip


def _success(checks: list[PolicyCheck]) -> str:
    words = [check.found for check in checks if check.status in ("passed", "waived") and check.name not in _UNSAID]
    words += [f"{title(check).lower()} not known ({check.reason})" for check in checks if check.status == "unknown"]
    return f"PASS: {'; '.join(words) or 'nothing was asked for'}"


def _failure(case: Case, checks: list[PolicyCheck]) -> str:
    failed = {check.name for check in checks if check.status == "failed"}
    words = []
    for check in checks:
        if not check.fails:
            continue
        if check.status == "unknown":
            words.append(f"{title(check).lower()} not known, though asked for ({check.reason})")
        elif check.name == _FINDINGS:  # Those that no other failed check speaks of.
            reached = failing(case.excused.counting(case.report.findings), case.policy.fail_on)
            left = [finding for finding in reached if _SAID_BY.get(finding.rule) not in failed]
            words += [findings_words(left)] if left else []
        else:
            words.append(check.found)
    expired = [waiver for waiver, _ in case.excused.waived if waiver.expired and waiver.used]
    words += [f"the waiver of {waiver.rule} expired on {waiver.expires}" for waiver in expired]
    return f"FAIL: {'; '.join(words)}"


def _advice(case: Case, checks: list[PolicyCheck]) -> str:
    """That of the first finding that made a check fail: findings come worst first."""
    wanted = {identity for check in checks if check.fails for identity in check.evidence}
    counting = case.excused.counting(case.report.findings)
    reached = {id(finding) for finding in failing(counting, case.policy.fail_on)}
    for finding in counting:
        if id(finding) in reached or wanted & set(finding.evidence):
            place = finding.location
            return f"{Path(place.file).name}:{place.line}: {finding.advice}" if place is not None else finding.advice
    return ""
