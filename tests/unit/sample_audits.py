"""Reports of audits, judged by a policy: clean ones, and with all that may fail."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec

from dynalyze.audit.policy import Policy, WaiverRule
from dynalyze.audit.verdict import judge_policy
from dynalyze.audit.waivers import AuditBaseline, Known
from dynalyze.report import Report
from dynalyze.report.measurements import Accuracy
from dynalyze.rules.rule import judge
from sample_measurements import measured, speedup, tensor
from sample_reports import clean_report, hostile_report, rich_report

LONG_AGO, FAR_OFF = datetime.date(2020, 1, 31), datetime.date(2999, 12, 31)


def judged(report: Report) -> Report:
    """The report with the findings of our own rules."""
    report.findings = judge(report)
    return report


def measured_audit(verdict: Any = "equal", speed: Any = None) -> Report:
    """A clean run that was measured."""
    report = clean_report()
    report.measurements = [measured("default", 20.0, speed or speedup(1.83, 1.79, 1.88))]
    logits = tensor("logits", verdict, 4.1e-7, 4.0e-4, dtype="bfloat16", compiled_dtype="bfloat16")
    report.accuracy = [Accuracy("default", "forward", verdict, "", True, True, 0.0, tensors=[logits])]
    return judged(report)


def passed_report() -> Report:
    report = measured_audit()
    report.policy = judge_policy(report, Policy(min_speedup=1.5, asked=frozenset({"min-speedup"})))
    return report


def failed_report() -> Report:
    """Breaks, an expired waiver, one that holds, one that covers nothing, a baseline with something mended."""
    report = judged(rich_report())
    first = next(finding for finding in report.findings if finding.rule == "graph-break" and finding.location)
    assert first.location is not None
    waivers = (
        WaiverRule("graph-break", "until the logger is gone", FAR_OFF, code=first.location.code or ""),
        WaiverRule("graph-break", "it was to be gone by now", LONG_AGO),
        WaiverRule("cudagraph-skip", "not on this machine", FAR_OFF, file="serve.py", function="main"),
    )
    policy = Policy("/home/me/pyproject.toml", min_speedup=1.2, waivers=waivers, asked=frozenset({"min-speedup"}))
    gone = Known("0" * 32, "graph-break", "model.py", "forward")
    report.policy = judge_policy(report, policy, AuditBaseline("/home/me/known.json", (gone,)))
    return report


def hostile_audit() -> Report:
    """Every text of the verdict tries to break out of its place."""
    report = hostile_report()
    source = failed_report().policy
    assert source is not None
    evil = "</td><script>alert(1)</script>`code`\u202e\n{{ 7*7 }}"

    def worse(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: value[key] if key in ("status", "name") else worse(value[key]) for key in value}
        if isinstance(value, list):
            return [worse(each) for each in value]
        return evil + value if isinstance(value, str) else value

    report.policy = msgspec.convert(worse(msgspec.to_builtins(source)), type(source))
    return report
