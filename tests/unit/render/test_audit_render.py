"""The verdict on the terminal and on the page, and again from a saved report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynalyze.cli.outputs import Outputs
from dynalyze.render import html, terminal
from dynalyze.report.document import from_json
from sample_audits import failed_report, hostile_audit, passed_report


def test_no_text_of_a_verdict_forges_a_line() -> None:
    text = terminal.render(hostile_audit(), color=False, width=4000)
    assert "\u202e" not in text
    assert not any(line.startswith("{{ 7*7 }}") for line in text.splitlines())


def test_the_page_begins_with_the_verdict() -> None:
    page = html.render(failed_report())
    assert page.index('id="policy"') < page.index('id="verdict"') < page.index('id="fixes"')
    assert re.search(r'<h1 id="policy-heading">model.py fails its audit: \d+ graph breaks?: [^;]*\.</h1>', page)
    assert '<h1 id="policy-heading">model.py passes its audit.</h1>' in html.render(passed_report())
    assert '<h2 id="verdict-heading">' in page
    assert "Audit: Failed" in page
    assert "Audit: Passed" in html.render(passed_report())


def test_the_evidence_leads_to_the_facts() -> None:
    report = failed_report()
    assert report.policy is not None
    (check,) = (each for each in report.policy.checks if each.name == "max-graph-breaks")
    page = html.render(report)
    rows = page[page.index('class="rows policy"') : page.index('id="verdict"')]
    for identity in check.evidence[:10]:
        anchor = re.search(rf'<a href="#([^"]+)">{identity}</a>', rows)
        assert anchor is not None
        assert f'id="{anchor[1]}"' in page


def outputs(folder: Path) -> Outputs:
    shown = {"no_source": False, "redact": False, "show_values": False}
    return Outputs({"json_file": str(folder / "a.json"), "fail_on": "none", **shown}, "a")


@pytest.mark.parametrize(("sample", "status"), [(failed_report, 1), (passed_report, 0)])
def test_the_verdict_decides_the_exit_status_of_an_audit_alone(tmp_path: Path, sample: object, status: int) -> None:
    assert callable(sample)
    report = sample()
    verdict = report.policy
    assert outputs(tmp_path).publish(report, lambda shown: verdict) == status
    assert outputs(tmp_path).publish(from_json((tmp_path / "a.json").read_bytes())) == 0
