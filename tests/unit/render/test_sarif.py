"""SARIF: valid by the schema of OASIS, places as code scanning needs them, nothing that a text can forge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from jsonschema import Draft4Validator

from ci_reports import hostile_reports, judged, judged_by_policy, samples
from dynalyze.render import sarif
from dynalyze.report import Finding, Location, Report
from sample_reports import LIBRARY, rich_report

SCHEMA = Draft4Validator(
    json.loads((Path(__file__).parents[2] / "data" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
)


def run_of(report: Report) -> dict[str, Any]:
    """The one run of the log, which is valid."""
    document = json.loads(sarif.render(report))
    assert [error.message for error in SCHEMA.iter_errors(document)] == []
    (run,) = document["runs"]
    assert isinstance(run, dict)
    return run


def artifacts(value: Any) -> list[dict[str, Any]]:
    """Every artifactLocation in it."""
    if isinstance(value, list):
        return [found for each in value for found in artifacts(each)]
    if not isinstance(value, dict):
        return []
    own = [value["artifactLocation"]] if "artifactLocation" in value else []
    return own + [found for each in value.values() for found in artifacts(each)]


def texts_of(value: Any) -> list[str]:
    """Every text in it."""
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in values for text in texts_of(each)]


def test_the_schema_refuses_what_is_wrong() -> None:
    document = json.loads(sarif.render(judged(rich_report())))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert list(SCHEMA.iter_errors(document))


@pytest.mark.parametrize("report", samples())
def test_it_is_valid(report: Report) -> None:
    run = run_of(report)
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids))
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["locations"], "code scanning refuses a result without a place"


@settings(max_examples=30)
@given(hostile_reports())
def test_it_is_valid_whatever_the_texts(report: Report) -> None:
    run = run_of(report)
    for found in artifacts(run["results"]):
        assert found["uri"].isascii()
        urlsplit(found["uri"])
        assert "uriBaseId" not in found or not urlsplit(found["uri"]).scheme
    assert all(character.isprintable() or character == "\n" for text in texts_of(run) for character in text)


def test_a_break_is_shown_at_its_line_with_the_way_to_it() -> None:
    report = judged(rich_report())
    found = next(finding for finding in report.findings if finding.evidence == ["b1"])
    result = run_of(report)["results"][report.findings.index(found)]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "SRCROOT"}
    # The report counts columns from 0, SARIF from 1.
    assert place["region"] == {"startLine": 44, "startColumn": 13, "endLine": 44, "endColumn": 34}
    assert place["contextRegion"]["snippet"]["text"] == 'print("score", score)'
    way = [each["location"]["physicalLocation"] for each in result["codeFlows"][0]["threadFlows"][0]["locations"]]
    stack = next(item.stack for item in report.graph_breaks if item.id == "b1")
    assert [each["region"]["startLine"] for each in way] == [line.line for line in stack]
    assert result["message"]["text"].startswith(found.title)
    assert found.advice in result["message"]["text"]


def test_a_file_outside_of_the_working_directory_keeps_its_path() -> None:
    report = judged(rich_report())
    uris = [found for found in artifacts(run_of(report)["results"]) if "attention" in found["uri"]]
    assert uris[0] == {"uri": f"file://{LIBRARY}"}


def test_redacted_folders_are_not_told() -> None:
    report = judged(rich_report())
    report.folder = "~/work/ranker"
    report.findings = [Finding("graph-break", "warning", "t", Location("~/work/ranker/model.py", 3))]
    run = run_of(report)
    assert artifacts(run["results"])[0] == {"uri": "model.py", "uriBaseId": "SRCROOT"}
    assert "uri" not in run["originalUriBaseIds"]["SRCROOT"]
    assert "workingDirectory" not in run["invocations"][0]


def test_a_policy_suppresses_what_it_waives_and_knows_the_baseline() -> None:
    report = judged_by_policy()
    results = {result["partialFingerprints"]["dynalyze/v1"]: result for result in run_of(report)["results"]
               if "partialFingerprints" in result}  # fmt: skip
    assert report.policy is not None
    held, expired = report.policy.waivers
    (suppression,) = results[held.findings[0]]["suppressions"]
    assert suppression == {"kind": "external", "status": "accepted", "justification": held.reason}
    assert "suppressions" not in results[expired.findings[0]]
    new = {found for found, result in results.items() if result["baselineState"] == "new"}
    assert new == set(report.policy.new)


def test_what_fails_the_policy_is_an_error_and_what_passes_is_not() -> None:
    """b1 is known to the baseline, b4 is new; both are evidence of the check of graph breaks, which failed."""
    report = judged_by_policy()
    assert report.policy is not None
    levels = {result["properties"]["evidence"][0]: result["level"] for result in run_of(report)["results"]
              if result["ruleId"] == "graph-break"}  # fmt: skip
    severities = {finding.evidence[0]: finding.severity for finding in report.findings if finding.rule == "graph-break"}
    assert (levels["b4"], severities["b4"]) == ("error", "warning")
    assert levels["b1"] == severities["b1"] == "warning"
