"""A JUnit XML file, which every CI system shows: a test for the run, for each rule, and for each check of a policy."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from dynalyze.render.findings import ENDED_WELL, counting, listened_to_the_end, waived
from dynalyze.render.text.policy import against_limit
from dynalyze.render.text.report import SEVERITY_WORDS, STATUS_WORDS, verdict
from dynalyze.report import Finding, Report
from dynalyze.report.audit import PolicyCheck
from dynalyze.rules.rule import rules
from dynalyze.text.escape import clipped, visible

_LONGEST = 4000
_NOT_KNOWN = "The run did not come so far that this is known."


def render(report: Report) -> str:
    """One XML document; a failed test is a finding of severity error, or a check of the policy that failed."""
    root = ET.Element("testsuites", {"name": "dynalyze"})
    outcome = report.outcome
    run = _case("run", "the program ran", outcome.seconds)
    if outcome.status not in ENDED_WELL:
        _say(run, "error", STATUS_WORDS[outcome.status], outcome.message, outcome.status)
    _say(run, "system-out", text=verdict(report))
    suites = [_suite(report, "run", [run]), _suite(report, "rules", list(_rule_cases(report)))]
    if report.policy is not None:
        suites.append(_suite(report, "policy", [_check_case(check) for check in report.policy.checks]))
    for suite in suites:
        root.append(suite)
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("time", f"{outcome.seconds:.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(report: Report, name: str, cases: list[ET.Element]) -> ET.Element:
    outcomes = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {key: str(sum(case.find(tag) is not None for case in cases)) for key, tag in outcomes.items()}
    seconds = sum(float(case.get("time", "0")) for case in cases)
    title = _line(f"dynalyze {name}: {report.target.spec}")
    attributes = {"name": title, "tests": str(len(cases)), **counts, "time": f"{seconds:.3f}"}
    suite = ET.Element("testsuite", attributes)
    if report.created:
        suite.set("timestamp", _line(report.created.removesuffix("Z")))
    suite.extend(cases)
    return suite


def _case(of: str, name: str, seconds: float = 0.0) -> ET.Element:
    attributes = {"classname": f"dynalyze.{of}", "name": _line(name) or "-", "time": f"{seconds:.3f}"}
    return ET.Element("testcase", attributes)


def _rule_cases(report: Report) -> Iterator[ET.Element]:
    """One for each rule, in the order of their ids; then one for each that a newer report names."""
    known = rules()
    owners = {rule_id: rule for rule in known for rule_id in rule.ids}
    found: dict[str, list[Finding]] = {rule.id: [] for rule in known}
    for finding in report.findings:
        owner = owners.get(finding.rule)
        found.setdefault(owner.id if owner is not None else finding.rule, []).append(finding)
    against = {id(finding) for finding in counting(report)}
    reasons = waived(report)
    for rule_id, findings in found.items():
        case = _case("rules", f"{rule_id}: {owners[rule_id].title}" if rule_id in owners else rule_id)
        failed = [finding for finding in findings if finding.severity == "error" and id(finding) in against]
        others = [finding for finding in findings if finding.severity != "error" or id(finding) not in against]
        if failed:
            _say(case, "failure", failed[0].title, "\n\n".join(map(_finding_text, failed)), "error")
        elif not findings and not listened_to_the_end(report):
            _say(case, "skipped", _NOT_KNOWN)
        if others:
            texts = (_finding_text(each, reasons.get(each.fingerprint)) for each in others)
            _say(case, "system-out", text="\n\n".join(texts))
        yield case


def _finding_text(finding: Finding, reason: str | None = None) -> str:
    place = finding.location
    at = f"{place.file}:{place.line}" if place is not None else ""
    code = f"    {place.code}" if place is not None and place.code else ""
    passes = "" if reason is None else f"The policy lets it pass: {reason}"
    lines = [f"{SEVERITY_WORDS[finding.severity]}: {finding.title}", at, code, finding.advice, passes]
    return "\n".join(line for line in lines if line)


def _check_case(check: PolicyCheck) -> ET.Element:
    case = _case("policy", check.name)
    found = against_limit(check)
    text = "\n".join(each for each in (found, check.reason) if each)
    if check.fails:
        _say(case, "failure", found, text, check.status)
    elif check.status == "unknown":
        _say(case, "skipped", check.reason or _NOT_KNOWN)
    else:
        _say(case, "system-out", text=text)
    return case


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
