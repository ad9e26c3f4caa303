"""JUnit XML: the structure that CI systems read, counts that add up, and no text that XML cannot hold."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given

from ci_reports import hostile_reports, judged, judged_by_policy, samples
from dynalyze.render import junit
from dynalyze.report import Report
from dynalyze.text.escape import visible
from sample_reports import empty_report, rich_report

OUTCOMES = ("failure", "error", "skipped")
# The common schema: what each element may hold, and the attributes it must have.
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {*OUTCOMES, "system-out"},
    **{tag: set[str]() for tag in (*OUTCOMES, "system-out")},
}
NEEDED = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
}


def read(report: Report) -> ET.Element:
    """The document, which has the structure of the common schema."""
    root = ET.fromstring(junit.render(report))
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN[element.tag]
        assert NEEDED.get(element.tag, set()) <= set(element.keys())
    for case in root.iter("testcase"):
        assert sum(len(case.findall(outcome)) for outcome in OUTCOMES) <= 1
    for counted in (root, *root):
        assert counted.get("tests") == str(len(list(counted.iter("testcase"))))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert counted.get(name) == str(len(list(counted.iter(tag))))
    return root


def outcomes(report: Report, suite: str) -> dict[str, str]:
    """What became of each test, by the first word of its name."""
    cases = [case for case in read(report).iter("testcase") if case.get("classname") == f"dynalyze.{suite}"]
    return {
        (case.get("name") or "").partition(":")[0]: next((tag for tag in OUTCOMES if case.find(tag) is not None), "ok")
        for case in cases
    }


@pytest.mark.parametrize("report", samples())
def test_the_structure(report: Report) -> None:
    read(report)


@given(hostile_reports())
def test_the_structure_whatever_the_texts(report: Report) -> None:
    read(report)
    text = junit.render(report)
    text.encode()  # A file is UTF-8: no half of a surrogate pair may be left in it.
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "hostile", ["\x00", "\x1b[31m", "\ufffe", "\ud800", "]]>", "<!--", "\u202eabc", "&amp;", "\r\n"]
)
def test_a_text_that_xml_cannot_hold_is_spelled(hostile: str) -> None:
    report = empty_report("failed", f"It said {hostile} and ended.")
    (error,) = read(report).iter("error")
    assert "".join(error.text.split()) == "".join(visible(f"It said {hostile} and ended.").split())


def test_an_error_fails_its_rule_and_a_warning_does_not() -> None:
    found = outcomes(judged(rich_report()), "rules")
    assert found["compile-failed"] == "failure"
    assert found["recompile"] == "failure"  # The limit was reached: that is an error.
    assert found["rank-divergence"] == "ok"
    text = junit.render(judged(rich_report()))
    assert "Ranks differ in forward" in text
    assert "/home/ada/work/ranker/model.py:44" in text


def test_a_policy_has_a_test_for_each_check() -> None:
    assert outcomes(judged_by_policy(), "policy") == {
        "graph-breaks": "failure",
        "speedup": "failure",
        "memory": "skipped",
        "accuracy": "failure",  # Unknown, and asked for.
        "recompiles": "ok",
    }
