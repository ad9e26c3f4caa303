"""The findings as SARIF 2.1.0, which code scanning of GitHub, GitLab and Azure DevOps, and editors, read.

Files stand by URI, relative where they are the user's own; columns count from 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from dynalyze.facts.fingerprints import fingerprints
from dynalyze.files.paths import below
from dynalyze.render.findings import ENDED_WELL, is_known, waived
from dynalyze.render.text.report import command_line, verdict
from dynalyze.report import Finding, GraphBreak, Location, Report, Severity, Target
from dynalyze.rules.rule import Rule, rules
from dynalyze.text.escape import clipped, visible

Object = dict[str, Any]

ROOT = "SRCROOT"
"""The name of the working directory of the run: a checkout elsewhere puts its own folder in its place."""


def artifact(file: str, folder: str) -> Object:
    """A file: relative to the working directory where it is below it, else by its whole path."""
    if (relative := below(file, folder)) is not None:
        return {"uri": quote(relative, errors="replace"), "uriBaseId": ROOT}
    if file.startswith("/"):
        return {"uri": _file_uri(file)}
    # What --redact left out stays "~" or "<tmp>"; what is relative is so to the working directory.
    return {"uri": quote(file, errors="replace"), **({} if file.startswith(("~", "<")) else {"uriBaseId": ROOT})}


def location(place: Location, folder: str, message: str = "") -> Object:
    """A line of code, with its columns and its text where they are known."""
    physical: Object = {"artifactLocation": artifact(place.file, folder)}
    if place.line > 0:
        region: Object = {"startLine": place.line}
        if place.column is not None and place.column >= 0:
            region["startColumn"] = place.column + 1
            if place.end_column is not None and place.end_column > place.column:
                region |= {"endLine": place.line, "endColumn": place.end_column + 1}
        physical["region"] = region
        if place.code:
            text = {"text": visible(place.code)}
            physical["contextRegion"] = {"startLine": place.line, "endLine": place.line, "snippet": text}
    found: Object = {"physicalLocation": physical}
    if place.function:
        found["logicalLocations"] = [{"fullyQualifiedName": visible(place.function), "kind": "function"}]
    if message:
        found["message"] = {"text": message}
    return found


def target_location(target: Target, folder: str) -> Object:
    """For what has no line of its own: what was run. Code scanning refuses a result without any place."""
    file, colon, _ = target.spec.partition(".py:")
    path = f"{file}.py" if colon else target.spec
    return location(Location(path or "unknown", 1 if path.endswith(".py") else 0), folder)


def roots(folder: str) -> Object:
    """Where relative files were in this run; without a URI where --redact hides that."""
    known: Object = {"description": {"text": "The working directory of the run."}}
    if folder.startswith("/") and "<" not in folder:
        known["uri"] = _file_uri(folder.rstrip("/") + "/")
    return {ROOT: known}


def _file_uri(path: str) -> str:
    return f"file://{quote(path, errors='replace')}"


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SITE = "https://github.com/dynalyze/dynalyze"
_HELP = f"{_SITE}/blob/main/docs/reference/rules.md"
_FINGERPRINT = "dynalyze/v1"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
_TO_GITHUB: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "recommendation"}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# A message must not be read as a link: [text](target) is one in SARIF's plain text.
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_MOST_FLOWS = 10
_LONGEST = 4000


def render(report: Report) -> str:
    results = list(_of_findings(report))
    descriptors = _descriptors(report)
    at = {each["id"]: number for number, each in enumerate(descriptors)}
    for result in results:
        result["ruleIndex"] = at[result["ruleId"]]
    driver = {
        "name": "dynalyze",
        "version": visible(report.dynalyze),
        "informationUri": _SITE,
        "shortDescription": {"text": "Explains what torch.compile did to a model."},
        "rules": descriptors,
    }
    torch = visible(str(report.environment.get("torch") or ""))
    properties: Object = {"verdict": visible(verdict(report)), "torch": torch}
    if report.policy is not None:
        properties["policy"] = {"passed": report.policy.passed, "summary": visible(report.policy.summary)}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"dynalyze/{visible(report.target.spec)}/"},
        "invocations": [_invocation(report)],
        "originalUriBaseIds": roots(report.folder),
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": properties,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _descriptors(report: Report) -> list[Object]:
    """Every rule, whether it found something or not, and what a report of another version names besides."""
    found = {rule_id: _of_rule(rule, rule_id) for rule in rules() for rule_id in rule.ids}
    for finding in report.findings:
        found.setdefault(visible(finding.rule), {"shortDescription": _text(finding.title or finding.rule)})
    return [{"id": identity, **each} for identity, each in found.items()]


def _of_rule(rule: Rule, rule_id: str) -> Object:
    more = f"`dynalyze rules {rule_id}` explains it offline."
    return {
        "name": "".join(part.capitalize() for part in rule_id.split("-")),
        "shortDescription": _text(rule.title),
        "fullDescription": _text(rule.description),
        "help": {"text": f"{rule.description} {more}", "markdown": f"{rule.description}\n\n{more}"},
        "helpUri": _HELP,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {
            "tags": ["torch.compile", "performance"],
            "precision": "high",
            "problem.severity": _TO_GITHUB[rule.severity],
        },
    }


def _of_findings(report: Report) -> Iterator[Object]:
    breaks = {item.id: item for item in report.graph_breaks}
    # The evidence of what fails the policy: code scanning holds a pull request up for errors alone.
    checks = report.policy.checks if report.policy is not None else []
    failing = {name for check in checks if check.fails for name in check.evidence}
    reasons = waived(report)
    for finding, found in zip(report.findings, fingerprints(report), strict=True):
        known, place = is_known(report, found), finding.location
        fails = failing & set(finding.evidence) and not (known or found in reasons)
        at = target_location(report.target, report.folder) if place is None else location(place, report.folder)
        result = {
            "ruleId": visible(finding.rule),
            "level": "error" if fails else _LEVELS[finding.severity],
            "message": {"text": _message(finding.title, finding.advice)},
            "locations": [at],
            "partialFingerprints": {_FINGERPRINT: visible(found)},
            "properties": _finding_properties(finding),
            **_flows([breaks[name] for name in finding.evidence if name in breaks], report.folder),
        }
        if found in reasons:
            reason = {"kind": "external", "status": "accepted", "justification": visible(reasons[found])}
            result["suppressions"] = [reason]
        if report.policy is not None and report.policy.baseline:  # Without one nothing is known of earlier runs.
            result["baselineState"] = "unchanged" if known else "new"
        yield result


def _finding_properties(finding: Finding) -> Object:
    properties: Object = {"evidence": [visible(name) for name in finding.evidence]}
    if finding.detail is not None and finding.detail.why:
        properties["why"] = visible(finding.detail.why)
    if finding.impact is not None:
        cost = msgspec.structs.replace(finding.impact, what=visible(finding.impact.what))
        properties["impact"] = msgspec.to_builtins(cost)
    return properties


def _flows(breaks: list[GraphBreak], folder: str) -> Object:
    """How the program came to each break, outermost first."""
    flows = [
        {"threadFlows": [{"locations": [{"location": location(line, folder)} for line in item.stack]}]}
        for item in breaks[:_MOST_FLOWS]
        if item.stack
    ]
    return {"codeFlows": flows} if flows else {}


def _invocation(report: Report) -> Object:
    outcome = report.outcome
    found: Object = {
        "executionSuccessful": outcome.status in ENDED_WELL,
        "commandLine": visible(command_line(report.command)),
        "arguments": [visible(word) for word in report.command],
        "toolExecutionNotifications": _notifications(report),
    }
    if report.folder.startswith("/"):
        found["workingDirectory"] = artifact(f"{report.folder.rstrip('/')}/", "")
    if outcome.exit_status is not None:
        found["exitCode"] = outcome.exit_status
        found["exitCodeDescription"] = "The exit status of the program that was run."
    if _DATE_TIME.fullmatch(report.created):
        found["endTimeUtc"] = report.created
    return found


def _notifications(report: Report) -> list[Object]:
    """What a reader has to know of the run itself, worst first."""
    capture, outcome = report.capture, report.outcome
    broken = [] if outcome.status in ENDED_WELL else [outcome.message or outcome.status]
    notes = [("error", text) for text in broken] + [("note", text) for text in capture.notes]
    return [{"level": level, "message": {"text": _message(text)}} for level, text in notes]


def _message(*sentences: str) -> str:
    """Sentences in one plain text; each ends with a mark of its own."""
    ended = (text if text.endswith((".", "!", "?", ":", "`")) else f"{text}." for text in sentences if text)
    return _LINK.sub(r"\\[", clipped(visible(" ".join(ended)), _LONGEST)) or "No message."


def _text(text: str) -> Object:
    return {"text": visible(text) or "-"}
