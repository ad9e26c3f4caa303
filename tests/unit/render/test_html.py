"""The HTML page from reports written by hand: what it says, what it leaves out, what it must never carry."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from html import unescape
from itertools import pairwise

import pytest

from dynalyze.render.highlight import MAX_LINE, CodeLine, code_at, code_block
from dynalyze.render.html import render
from dynalyze.render.view.links import Anchors, safe_url
from dynalyze.render.view.page import Page
from dynalyze.render.view.run import metrics_view
from dynalyze.report import Capture, Finding, Location, Outcome, Report, Snippet
from dynalyze.report.document import from_json, to_json
from dynalyze.report.fixes import Fixed
from html_tree import Tree
from sample_audits import failed_report, hostile_audit, passed_report
from sample_reports import (
    LIBRARY,
    MODEL,
    benched_report,
    clean_report,
    compilation,
    empty_report,
    graph_break,
    hostile_report,
    line_of,
    measured_report,
    recompile,
    rich_report,
    traced,
)

REPORTS = {
    "rich": rich_report,
    "clean": clean_report,
    "empty": empty_report,
    "nothing": lambda: empty_report("nothing_compiled"),
    "hostile": hostile_report,
    "measured": measured_report,
    "benched": benched_report,
    "audit passed": passed_report,
    "audit failed": failed_report,
    "audit hostile": hostile_audit,
}


@cache
def page_of(name: str) -> str:
    return render(REPORTS[name]())


@cache
def tree_of(name: str) -> Tree:
    return Tree(page_of(name))


def text_of(report: Report) -> str:
    return Tree(render(report)).text()


def plain(line: CodeLine) -> str:
    """The text of a highlighted line, every blank kept."""
    return unescape(re.sub("<[^>]*>", "", line.html))


def caret_row(location: Location, snippet: Snippet) -> tuple[str, str]:
    """The marked line as plain text, and the caret row under it."""
    code = code_at(location, snippet)
    assert code is not None
    (marked,) = (line for line in code.lines if line.marked)
    return plain(marked), marked.caret


@pytest.mark.parametrize("name", REPORTS)
def test_every_link_within_the_page_has_its_target_once(name: str) -> None:
    tree = tree_of(name)
    ids = tree.values("id")
    assert len(ids) == len(set(ids))
    inside = [href[1:] for href in tree.values("href") if href.startswith("#")]
    assert set(inside) <= set(ids)
    assert set(tree.values("aria-labelledby")) | set(tree.values("for")) <= set(ids)


@pytest.mark.parametrize("name", REPORTS)
def test_headings_go_down_one_step_at_a_time(name: str) -> None:
    levels = [int(tag[1]) for tag, _ in tree_of(name).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", REPORTS)
def test_the_policy_names_the_hash_of_each_inline_script_and_style(name: str) -> None:
    page, tree = page_of(name), tree_of(name)
    (policy,) = (content for content in tree.values("content") if "default-src" in content)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(scripts) == 2
    assert len(styles) == 1
    for text in scripts + styles:
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_in_the_page_needs_an_inline_style_or_handler(name: str) -> None:
    for _, attributes in tree_of(name).elements:
        assert "style" not in attributes
        assert not any(attribute.startswith("on") for attribute in attributes)


def test_hostile_text_adds_no_element_and_no_raw_control_character() -> None:
    page = render(hostile_report())
    tree = Tree(page)
    assert [tag for tag, _ in tree.elements].count("script") == 3
    assert "img" not in {tag for tag, _ in tree.elements}
    assert not any("javascript:" in href for href in tree.values("href"))
    assert all(character.isprintable() or character == "\n" for character in page)
    assert "\\u202eesrever ␛[31mred␇ ␀nul" in tree.text()
    assert "{{7*7}}" in tree.text()


def test_the_embedded_json_is_the_report() -> None:
    for name, make in REPORTS.items():
        data = gzip.decompress(base64.b64decode(tree_of(name).texts["script"][1], validate=True))
        assert json.loads(data) == json.loads(to_json(make()))
        assert from_json(data) == make()


def test_a_report_too_large_to_embed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynalyze.render.view.run.MAX_EMBEDDED_JSON", 100)
    page = render(rich_report())
    assert 'id="report-json"' not in page
    assert "was left out of this page" in text_of(rich_report())


def test_the_caret_stands_under_the_exact_columns() -> None:
    line = '        y = self.head(x).item() + 1  # "é"'
    snippet = Snippet(7, ["    def forward(self, x):", line, "        return y"])
    text, caret = caret_row(Location("m.py", 8, 12, "forward", line.strip(), 31), snippet)
    assert text == '    y = self.head(x).item() + 1  # "é"'
    start, end = caret.index("^"), len(caret)
    assert text[start:end] == "self.head(x).item()"
    assert set(caret.strip()) == {"^"}


@pytest.mark.parametrize(
    ("line", "column", "end", "expected"),
    [
        ("\tx = f(y)", 5, 9, "    ^^^^"),
        ("a\x1b = f(y)", 5, 9, "     ^^^^"),
        ("变 = f(y)", 4, 8, "     ^^^^"),
        ("\u202ex = f(y)", 5, 9, "          ^^^^"),
        ("x = f(", 4, None, "    ^^"),
        ("x = f(", 4, 2, "    ^^"),
        ("x = f(y)", 4, 900, "    ^^^^"),
    ],
)
def test_the_caret_follows_the_width_of_what_is_shown(line: str, column: int, end: int | None, expected: str) -> None:
    assert caret_row(Location("m.py", 1, column, "f", line, end), Snippet(1, [line]))[1] == expected


@pytest.mark.parametrize("column", [None, 50, -1])
def test_a_column_outside_the_line_gets_no_caret(column: int | None) -> None:
    assert caret_row(Location("m.py", 1, column, "f", "x = 1", None), Snippet(1, ["x = 1"]))[1] == ""


def test_a_huge_line_keeps_the_part_around_its_span() -> None:
    line = "x = [" + "1, " * 30_000 + "broken()" + ", 1" * 30_000
    column = line.index("broken")
    text, caret = caret_row(Location("m.py", 1, column, "f", line, column + 8), Snippet(1, [line]))
    assert len(text) < MAX_LINE + 60
    assert text[caret.index("^") : len(caret)] == "broken()"
    assert "characters omitted" in text


def test_blank_lines_at_the_ends_of_a_snippet_are_left_out() -> None:
    code = code_at(Location("m.py", 12, 0, "f", "x = 1", 1), Snippet(10, ["", "  ", "x = 1", "", "y = 2", "", ""]))
    assert code is not None
    assert [(line.number, plain(line), line.marked) for line in code.lines] == [
        (12, "x = 1", True),
        (13, "", False),
        (14, "y = 2", False),
    ]


def test_code_keeps_every_character() -> None:
    text = 'def f(x):\n    """Two\n    lines."""\n\n    return f"{x!r:>{4}}" + \'\\\n\'  # end'
    assert [plain(line) for line in code_block(text).lines] == text.split("\n")


def test_each_break_stands_once_in_the_card_that_is_about_its_line_or_by_itself() -> None:
    report = empty_report()
    places = [Location(MODEL, 10 * n, None, "f", "print(x)") for n in range(1, 5)]
    report.graph_breaks = [graph_break(f"b{n}", "split", place) for n, place in enumerate(places, 1)]
    report.findings = [
        Finding("recompile", "warning", "Again", places[3], ["b1", "b3"], "Do."),
        Finding("graph-break", "warning", "Print", places[0], ["b1", "b2"], "Delete it."),
    ]
    page = Page(report)
    assert [[found.id for found in card.breaks] for card in page.findings.shown.items] == [["b3"], ["b1", "b2"]]
    assert [found.id for found in page.findings.breaks.items] == ["b4"]
    assert [link.text for link in page.findings.shown.items[0].evidence.items] == ["b1"]


def test_no_name_of_dynamo_is_on_the_page() -> None:
    report = clean_report()
    report.recompiles = [recompile("r1", "0/1", expected="4", source="___stack0[1].size()[0]", guard="___stack0[1]")]
    report.recompiles[0].location = Location(MODEL, 3, None, "torch_dynamo_resume_in_forward_at_26")
    text = text_of(report)
    assert "value left by a graph break.size()[0]" in text and "forward after line 26" in text
    assert "___stack" not in text and "torch_dynamo_resume" not in text


def test_evidence_that_is_not_on_the_page_is_no_link() -> None:
    hrefs = Tree(render(rich_report())).values("href")
    assert "#r1" in hrefs
    assert "#g9" not in hrefs


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("nothing_compiled", "torch.compile compiled nothing"),
        ("failed", "The program failed after 12 s (exit status 1)."),
        ("timed_out", "The time limit ended the program after 12 s."),
        ("interrupted", "The run was interrupted after 12 s."),
    ],
)
def test_a_run_that_went_wrong_says_so_first(status: str, sentence: str) -> None:
    report = empty_report(status, "RuntimeError: the message")  # type: ignore[arg-type]
    tree = Tree(render(report))
    assert tree.texts["h1"][0].startswith(sentence)
    assert any(value == "verdict bad" for value in tree.values("class"))
    assert tree.text().index("RuntimeError: the message") < tree.text().index("Fix these first")
    assert "Nothing to fix was found" not in tree.text()


@pytest.mark.parametrize("status", ["timed_out", "interrupted"])
def test_what_was_cut_after_the_run_is_not_told_of_the_run(status: str) -> None:
    report = clean_report()
    report.outcome = Outcome(status, "The time limit was reached during: speed.", 0, 12.3)  # type: ignore[arg-type]
    headline = Tree(render(report)).texts["h1"][0]
    assert headline.startswith("The time limit was reached during: speed.")
    assert "12 s" not in headline


def test_what_was_lost_stands_before_the_findings() -> None:
    report = rich_report()
    report.capture = Capture(unreadable_lines=3, listener_errors=["KeyError: 'frame'"], notes=["A note."])
    text = text_of(report)
    for part in ("3 lines of the recording could not be read", "1 error", "KeyError: 'frame'", "A note."):
        assert text.index(part) < text.index("Fix these first")


def test_unknown_numbers_are_left_out() -> None:
    labels = {metric.label for metric in metrics_view(empty_report())}
    assert not labels & {"graphs", "spent compiling"}
    assert {"graphs", "spent compiling"} <= {metric.label for metric in metrics_view(rich_report())}


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("links.MAX_BREAKS", "run.MAX_BREAKS", "links.MAX_COMPILATIONS", "compiles.MAX_COMPILATIONS"):
        monkeypatch.setattr(f"dynalyze.render.view.{module}", 20)
    report = clean_report()
    report.graph_breaks = [
        graph_break(f"b{number}", "split", line_of(44, 12, 33), compile_ids=["0/0"]) for number in range(20 + 1234)
    ]
    report.compilations = [compilation(f"{number}/0") for number in range(20 + 7)]
    report.findings = [Finding("graph-break", "info", "Last", evidence=["b25"])]
    page = render(report)
    text = Tree(page).text()
    assert "1,234 graph breaks omitted here" in text
    assert "7 compilations omitted here" in text
    assert text.count("Failed to trace builtin operator") == 20
    assert "#b25" not in page


def test_compilations_of_other_processes_and_epochs_keep_their_own_anchors() -> None:
    report = clean_report()
    report.compilations += [compilation("0/0", process=1), compilation("0/0")]
    report.compilations[-1].epoch = 2
    report.graph_breaks = [graph_break("b1", "split", line_of(44, 12, 33), process=1, compile_ids=["0/0"])]
    page = render(report)
    assert re.search(r'Compilations\s*<a href="#compile-0-0-process-1">0/0 \(process 1\)</a>', page)
    assert 'id="compile-0-0-after-reset-2"' in page


@pytest.mark.parametrize("program", [[], ["dynalyze"]])
def test_the_command_can_be_pasted(program: list[str]) -> None:
    report = clean_report()
    report.command = [*program, "explain", "my model.py", "--", "--name", "it's"]
    assert """dynalyze explain 'my model.py' -- --name 'it'"'"'s'""" in text_of(report)
    assert "dynalyze dynalyze" not in text_of(report)


def test_a_traced_file_tells_its_hash_and_functions() -> None:
    report = clean_report()
    report.traced_files = [traced(MODEL), traced(LIBRARY)]
    text = text_of(report)
    assert "forward:40, encode:22" in text
    assert "3b1e" * 16 in text
    assert text.index("ranker/model.py user") < text.index("layers/attention.py library")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//host/x", "https://", "http://[", ""])
def test_only_web_addresses_become_links(url: str) -> None:
    assert safe_url(url) == ""


def test_anchors_are_valid_and_never_given_twice() -> None:
    anchors = Anchors(["breaks"])
    assert [anchors.claim(name) for name in ("b1", "b1", "breaks", "<a b>", "…")] == [
        "b1", "b1-2", "breaks-2", "a-b", "part",
    ]  # fmt: skip


def test_a_run_of_fix_that_finds_nothing_to_change_has_no_section_of_changes() -> None:
    report = clean_report()
    report.fixed = Fixed()
    assert 'id="verified"' not in render(report)
