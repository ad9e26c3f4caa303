"""The section "Line by line" of the page."""

from __future__ import annotations

import pytest

from dynalyze.render.html import render
from dynalyze.render.view import sources as module
from dynalyze.render.view.page import Page
from dynalyze.report import Compilation, Finding, Graph, GraphBreak, Kernel, Location, Report
from dynalyze.report.code import SourceFile, SourceFunction, SourceLine
from sample_reports import empty_report

FILE = "/home/ada/model.py"
LINES = ["    def forward(self, x):", "        h = x.relu()", "        print(h)", "        return h"]


def told() -> Report:
    """A function with a break in its third line, and a finding for it."""
    report = empty_report()
    place = Location(FILE, 12, 8, "Net.forward", "print(h)", 16)
    report.graph_breaks = [GraphBreak("b1", "GB0059", "call", "split", place, [place])]
    report.findings = [
        Finding("graph-break", "warning", "Take the print out", place, ["b1"], "Call `print(h)` outside.")
    ]
    states = ("silent", "compiled", "broken", "eager")
    lines = [SourceLine(10 + at, code, state) for at, (code, state) in enumerate(zip(LINES, states, strict=True))]
    lines[1].ops, lines[1].graphs, lines[2].breaks = 1, ["g1"], ["b1"]
    report.sources = [SourceFile(FILE, "user", [SourceFunction("Net.forward", 10, 13, "broken")], lines)]
    return report


def test_each_line_says_what_became_of_it() -> None:
    (file,) = Page(told()).sources.files
    assert (file.fact.path, file.counts, file.open) == (
        "/home/ada/model.py", "1 line compiled, 1 in eager, 1 with graph breaks", True
    )  # fmt: skip
    assert [(row.fact.line, row.state_words, row.function, row.fact.ops) for row in file.rows] == [
        (10, "", "compiled in parts", 0),
        (11, "compiled", "", 1),
        (12, "graph break", "", 0),
        (13, "runs in eager", "", 0),
    ]


def test_the_broken_line_is_marked_and_has_its_advice_and_its_break() -> None:
    (file,) = Page(told()).sources.files
    row = file.rows[2]
    assert "<mark>" in row.html
    assert [(link.text, link.anchor) for link in row.links] == [("b1", "b1")]
    (note,) = row.notes
    assert (note.anchor, note.title, note.action) == ("fix-1", "Take the print out", "Call `print(h)` outside.")


def test_places_lead_to_their_lines() -> None:
    page = Page(told())
    row = page.sources.files[0].rows[2]
    assert page.links.place(page.findings.shown.items[0].breaks[0].location).anchor == row.anchor
    assert page.findings.shown.items[0].place is not None
    assert page.findings.shown.items[0].place.anchor == row.anchor
    html = render(told())
    assert html.count(f'href="#{row.anchor}"') >= 3
    assert html.count(f'id="{row.anchor}"') == 1


def test_a_line_leads_to_its_graph_and_kernels_lead_to_the_line() -> None:
    report = told()
    place = Location(FILE, 11, None, "Net.forward", LINES[1])
    report.graphs = [Graph("g1", "0/0", ops=1)]
    report.kernels = [Kernel("g1", name, "cpp", places=[place]) for name in ("cpp_fused_relu_0", "cpp_fused_relu_1")]
    page = Page(report)
    row = page.sources.files[0].rows[1]
    assert [(link.text, link.anchor) for link in row.links] == [("g1: 2 kernels", "g1")]
    first, _ = page.graphs.shown.items[0].kernels.items
    assert [place.anchor for place in first.sources] == [row.anchor]


def test_a_fact_leads_to_what_to_do_about_it_and_a_compilation_to_its_facts() -> None:
    report = told()
    report.graph_breaks[0].compile_ids = ["0/0"]
    report.compilations = [Compilation("0/0", 0, 0, Location(FILE, 10, None, "Net.forward"), "broken", {"total": 1.0})]
    report.graphs = [Graph("g1", "0/0", ops=1)]
    page = Page(report)
    (broken,) = page.findings.shown.items[0].breaks
    (found,) = page.links.fix(broken.id)
    assert (found.text, found.anchor, found.title) == ("finding 1", "fix-1", "Take the print out")
    (row,) = page.compilations.shown.items
    assert [link.text for link in row.met.items] == ["g1", "b1"]
    html = render(report)
    assert all(f'id="{link.anchor}"' in html for link in row.met.items)


def test_long_files_and_whole_ones_stay_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_OPEN", 3)
    assert not Page(told()).sources.files[0].open
    whole = told()
    whole.sources[0].lines[2].breaks = []
    assert not Page(whole).sources.files[0].open


def test_hostile_lines_are_inert() -> None:
    report = told()
    report.sources[0].lines[3].code = "x = '</code><script>alert(1)</script>\u2028\u202e'"
    html = render(report)
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "\u2028" not in html
