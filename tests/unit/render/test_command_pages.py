"""The pages of fix, plan and audit: each begins with a verdict of its own; and the table of processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynalyze.cli.outputs import Outputs
from dynalyze.render import html, terminal
from dynalyze.render.html import render
from dynalyze.render.view.compiles import ProcessesView
from dynalyze.render.view.links import Anchors
from dynalyze.render.view.page import Page
from dynalyze.report import Compilation, GraphBreak, Location, Outcome, Process, Recompile, Report, Target
from dynalyze.report.document import from_json
from html_tree import Tree
from sample_audits import failed_report, hostile_audit, passed_report
from sample_reports import fixed_report


def test_the_page_of_fix_says_how_many_breaks_are_fixed_and_how_to_apply_each_change() -> None:
    page = Page(fixed_report())
    assert (page.verdict.status, page.verdict.tone) == ("Verified", "good")
    assert page.verdict.headline.startswith("Fixed and verified 2 of 6 graph breaks")
    assert page.verified.all == "dynalyze fix model.py --write"
    assert [(row.fact.id, row.command) for row in page.verified.shown.items] == [
        ("f2", "dynalyze fix model.py --only b1 --write"),
        ("f3", ""),
        ("f1", ""),
    ]
    assert "To apply it: dynalyze fix model.py --only b1 --write" in Tree(render(fixed_report())).text()


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


PLACE = Location("/job/model.py", 3, function="step")


def report(*processes: Process) -> Report:
    found = Report("0.1.0", "", [], {}, Target("trace", "logs"), Outcome("complete"))
    found.processes = list(processes)
    return found


def test_each_rank_has_its_own_counts() -> None:
    found = report(Process(0, 7, 0), Process(1, 8, 1))
    found.compilations = [
        Compilation("0/0", 0, 0, PLACE, "compiled", {"total": 1, "backward": 0.5}, {"x_hit": 2, "why": "x"}, ops=4),
        Compilation("0/0", 1, 0, PLACE, "broken", {"total": 2.0}, {"x_miss": 1, "y_miss": 1}, ops=3),
        Compilation("0/1", 1, 0, PLACE, "eager", {}),
    ]
    found.graph_breaks = [GraphBreak("b1", None, "x", "split", PLACE, [PLACE], processes=[1])]
    found.recompiles = [Recompile("r1", "0/1", "0/0", PLACE, "shape", process=1)]
    first, second = ProcessesView(found, Anchors()).shown.items
    assert (first.rank, first.compilations, first.eager, first.breaks, first.recompiles) == ("0", "1", "0", "0", "0")
    assert (second.rank, second.compilations, second.eager, second.breaks, second.recompiles) == (
        "1",
        "2",
        "1",
        "1",
        "1",
    )
    assert (first.seconds, first.ops, first.cache) == ("1.5 s", "4", "2 hits, 0 misses")
    assert (second.seconds, second.ops, second.cache) == ("2.0 s", "3", "0 hits, 2 misses")
    assert not ProcessesView(found, Anchors()).commands
