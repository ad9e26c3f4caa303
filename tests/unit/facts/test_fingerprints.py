"""A fingerprint stays while lines move and folders change, and tells different findings apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ci_reports import FOLDER, judged
from dynalyze.facts.fingerprints import add_fingerprints, fingerprints
from dynalyze.privacy import redact, without_source
from dynalyze.report import Finding, Location, Report
from dynalyze.report.sensitivity import changed
from sample_reports import clean_report, rich_report


def everywhere(report: Report, change: Callable[[Location], Location]) -> Report:
    return changed(report, lambda _, text: text, {Location: lambda place, _: change(place)})


def of(report: Report) -> set[str]:
    return {finding.fingerprint for finding in judged(report).findings}


def test_lines_may_move() -> None:
    moved = everywhere(
        rich_report(), lambda place: replace(place, line=place.line + 70, column=(place.column or 0) + 4)
    )
    assert of(moved) == of(rich_report())


def test_a_checkout_may_lie_elsewhere() -> None:
    other = everywhere(rich_report(), lambda place: replace(place, file=place.file.replace(FOLDER, "/ci/build/7")))
    other.findings = judged(other).findings
    for finding in other.findings:
        finding.fingerprint = ""
    other.folder = "/ci/build/7"
    add_fingerprints(other)
    assert {finding.fingerprint for finding in other.findings} == of(rich_report())


@pytest.mark.parametrize(
    "change",
    [
        lambda place: replace(place, code=f"{place.code} + 1"),
        lambda place: replace(place, function="another"),
        lambda place: replace(place, file=place.file.replace("model.py", "other.py").replace("attention", "norm")),
    ],
    ids=["code", "function", "file"],
)
def test_what_tells_findings_apart(change: Callable[[Location], Location]) -> None:
    assert of(everywhere(rich_report(), change)).isdisjoint(of(rich_report()))


def test_another_cause_at_the_same_line_is_another_finding() -> None:
    report = rich_report()
    for item in report.graph_breaks:
        item.gb_id = "GB9999"
    breaks = {finding.fingerprint for finding in judged(rich_report()).findings if finding.rule == "graph-break"}
    assert breaks.isdisjoint(of(report))


def test_equal_ones_are_numbered_from_the_top() -> None:
    report = rich_report()
    place = Location(f"{FOLDER}/model.py", 9, 4, "forward", "print(x)")
    report.findings = [Finding("some-rule", "warning", "t", replace(place, line=line)) for line in (30, 10, 20)]
    found = fingerprints(report)
    assert len(set(found)) == 3
    report.findings = [report.findings[1], report.findings[2], report.findings[0]]
    assert fingerprints(report) == [found[1], found[2], found[0]]


def test_the_name_of_a_resumed_function_holds_no_line() -> None:
    report = rich_report()
    names = ("torch_dynamo_resume_in_forward_at_41", "torch_dynamo_resume_in_forward_at_55")
    for name in names:
        report.findings.append(Finding(name, "warning", "t", Location(f"{FOLDER}/m.py", 1, None, name)))
    one, other = report.findings[-2:]
    other.rule = one.rule
    both = fingerprints(report)[-2:]
    report.findings = [one]
    assert fingerprints(report) == both[:1]
    report.findings = [other]
    assert fingerprints(report) == both[:1]


def test_redacting_changes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    report = judged(rich_report())
    report.folder = FOLDER
    hidden = redact(report)
    assert hidden.findings[0].location is not None and hidden.findings[0].location.file.startswith("~")
    for finding in hidden.findings:
        finding.fingerprint = ""
    assert fingerprints(hidden) == [finding.fingerprint for finding in report.findings]


def test_without_source_they_are_still_apart_and_stay() -> None:
    bare = without_source(rich_report())
    moved = everywhere(bare, lambda place: replace(place, line=place.line + 3))
    assert of(bare) == of(moved)
    assert len(of(bare)) == len(judged(bare).findings)


def test_without_a_place_the_title_tells_and_its_numbers_do_not() -> None:
    def alone(finding: Finding) -> list[str]:
        report = clean_report()
        report.findings = [finding]
        return fingerprints(report)

    first = Finding("some-rule", "info", "3 layers compute in float32, 12% of them")
    second = Finding("some-rule", "info", "7 layers compute in float32, 2.5% of them")
    third = Finding("some-rule", "info", "7 layers compute in bfloat16, 2.5% of them")
    assert alone(first) == alone(second) != alone(third)
