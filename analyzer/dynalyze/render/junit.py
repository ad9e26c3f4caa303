"""A JUnit XML file, which every CI system shows: a test for the run, for each rule, and for each check of a policy."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from dynalyze.render.findings import ENDED_WELL, counting, listened_to_the_end, waived
from dynalyze.report import Finding, Report
from dynalyze.report.audit import PolicyCheck
from dynalyze.rules.rule import Rule, rules
from dynalyze.text.visible import clipped, visible
from dynalyze.words.report import severity_words, status_words, verdict

_LONGEST = 4000
_NOT_KNOWN = "The run did not come so far that this is known."


def render(report: Report) -> str:
    """One XML document; a failed test is a finding of severity error, or a check of the policy that failed."""
    root = ET.Element("testsuites", {"name": "dynalyze"})
    suites = [_suite(report, "run", [_run_case(report)]), _suite(report, "rules", list(_rule_cases(report)))]
    if report.policy is not None:
        suites.append(_suite(report, "policy", [_check_case(check) for check in report.policy.checks]))
    for suite in suites:
        root.append(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", _seconds(report.outcome.seconds))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(report: Report, name: str, cases: list[ET.Element]) -> ET.Element:
    seconds = sum(float(case.get("time", "0")) for case in cases)
    suite = ET.Element(
        "testsuite",
        {
            "name": _line(f"dynalyze {name}: {report.target.spec}"),
            "tests": str(len(cases)),
            "failures": str(_count(cases, "failure")),
            "errors": str(_count(cases, "error")),
            "skipped": str(_count(cases, "skipped")),
            "time": _seconds(seconds),
        },
    )
    if report.created:
        suite.set("timestamp", _line(report.created.removesuffix("Z")))
    suite.extend(cases)
    return suite


def _count(cases: list[ET.Element], outcome: str) -> int:
    return sum(case.find(outcome) is not None for case in cases)


def _case(of: str, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.Element(
        "testcase", {"classname": f"dynalyze.{of}", "name": _line(name) or "-", "time": _seconds(seconds)}
    )


# The run itself.


def _run_case(report: Report) -> ET.Element:
    outcome = report.outcome
    case = _case("run", "the program ran", outcome.seconds)
    if outcome.status not in ENDED_WELL:
        _say(case, "error", status_words(outcome.status), outcome.message, outcome.status)
    _say(case, "system-out", text=verdict(report))
    return case


# Rules.


def _rule_cases(report: Report) -> Iterator[ET.Element]:
    """One for each rule, in the order of their ids; then one for each that a newer report names."""
    known = rules()
    owners = {rule_id: rule for rule in known for rule_id in rule.ids}
    found: dict[str, list[Finding]] = {rule.id: [] for rule in known}
    for finding in report.findings:
        owner = owners.get(finding.rule)
        found.setdefault(owner.id if owner is not None else finding.rule, []).append(finding)
    against = {id(finding) for finding in counting(report)}
    for rule_id, findings in found.items():
        failed = [finding for finding in findings if finding.severity == "error" and id(finding) in against]
        yield _rule_case(report, rule_id, owners.get(rule_id), findings, failed)


def _rule_case(
    report: Report, rule_id: str, rule: Rule | None, findings: list[Finding], failed: list[Finding]
) -> ET.Element:
    case = _case("rules", f"{rule_id}: {rule.title}" if rule is not None else rule_id)
    others = [finding for finding in findings if not any(finding is each for each in failed)]
    if failed:
        _say(case, "failure", failed[0].title, "\n\n".join(map(_told, failed)), "error")
    elif not findings and not listened_to_the_end(report):
        _say(case, "skipped", _NOT_KNOWN)
    if others:
        reasons = waived(report)
        _say(case, "system-out", text="\n\n".join(_with_reason(finding, reasons) for finding in others))
    return case


def _told(finding: Finding) -> str:
    place = finding.location
    at = f"{place.file}:{place.line}" if place is not None else ""
    code = f"    {place.code}" if place is not None and place.code else ""
    lines = [f"{severity_words(finding.severity)}: {finding.title}", at, code, finding.advice]
    return "\n".join(line for line in lines if line)


def _with_reason(finding: Finding, reasons: dict[str, str]) -> str:
    reason = reasons.get(finding.fingerprint)
    return _told(finding) if reason is None else f"{_told(finding)}\nThe policy lets it pass: {reason}"


# The policy.


def _check_case(check: PolicyCheck) -> ET.Element:
    case = _case("policy", check.name)
    asked = f"; asked for: {check.limit}" if check.limit else ""
    found = f"{check.found or check.status}{asked}"
    if check.fails:
        _say(case, "failure", found, "\n".join(each for each in (found, check.reason) if each), check.status)
    elif check.status == "unknown":
        _say(case, "skipped", check.reason or _NOT_KNOWN)
    else:
        _say(case, "system-out", text="\n".join(each for each in (found, check.reason) if each))
    return case


# Texts.


def _say(case: ET.Element, tag: str, message: str = "", text: str = "", kind: str = "") -> None:
    element = ET.SubElement(case, tag)
    if message or kind:
        element.set("message", _line(message) or kind)
    if kind:
        element.set("type", kind)
    if text:
        element.text = clipped(visible(text), _LONGEST)


def _line(text: str) -> str:
    """On one line, and nothing in it that XML cannot hold."""
    return clipped(visible(" ".join(text.split())), _LONGEST)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
