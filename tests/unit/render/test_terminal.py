"""The summary on the terminal."""

from __future__ import annotations

import html as entities
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from dynalyze.render import html, markdown
from dynalyze.render.terminal import render
from dynalyze.report import Finding, Location, Report
from dynalyze.report.fixes import Unfixed, WholeProgram
from html_tree import Tree
from sample_reports import (
    MODEL,
    clean_report,
    empty_report,
    fixed_report,
    line_of,
    rich_report,
)

ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def plain(report: Report, **options: object) -> str:
    return render(report, color=False, width=80, **options)  # type: ignore[arg-type]


def many_findings(number: int) -> Report:
    report = clean_report()
    report.findings = [
        Finding("print", "warning", f"Finding {n}", line_of(44, 12, 33), [], "Act.") for n in range(number)
    ]
    return report


def with_finding(**changes: object) -> Report:
    report = clean_report()
    fields: dict[str, object] = {"location": line_of(44, 12, 33), "evidence": ["b1"], "advice": "Move it."}
    report.findings = [Finding(**{"rule": "print", "severity": "info", "title": "T", **fields, **changes})]  # type: ignore[arg-type]
    return report


def test_a_break_that_is_not_among_the_facts_does_no_harm() -> None:
    assert "T" in plain(with_finding(rule="graph-break", evidence=["b99"]))
    assert "T" in plain(with_finding(rule="graph-break", evidence=[]))


def test_ten_findings_and_then_how_many_more() -> None:
    assert "more" not in plain(many_findings(10))
    text = plain(many_findings(11))
    assert "10. model.py:44 Finding 9" in text
    assert "Finding 10" not in text
    assert "1 more finding" in text
    assert "5 more findings" in plain(many_findings(15))


def test_the_three_costliest_findings_are_whole_and_the_others_a_line_each() -> None:
    report = many_findings(11)
    for number, finding in enumerate(report.findings):
        finding.advice = f"Advice {number}"
    text = plain(report)
    assert [number for number in range(11) if f"→ Advice {number}\n" in text] == [0, 1, 2]
    (line,) = [line for line in text.splitlines() if "Finding 3" in line]
    assert report.findings[3].location is not None
    assert f":{report.findings[3].location.line} " in line
    whole = plain(report, verbose=True)
    assert all(f"→ Advice {number}\n" in whole for number in range(11))


def test_long_words_are_broken_and_long_lines_of_code_cut() -> None:
    place = Location("/x.py", 3, 4, "f" * 200, "call(" + "x, " * 500 + ")")
    text = plain(with_finding(location=place, title="q" * 300, advice="z" * 300))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("q") == 300
    assert text.count("z") == 300
    assert text.count("x, ") < 40


# Colour.


def test_every_colour_is_ended_on_its_line() -> None:
    for line in render(rich_report(), color=True, width=80).splitlines():
        codes = ESCAPES.findall(line)
        assert not codes or codes[-1] == "\x1b[0m"


# Text from a run may be anything.


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "[/]", "[link=file:///etc]x[/link]", ":smile:", "\\[x]", "[red"])
def test_markup_is_shown_as_it_stands(text: str) -> None:
    place = Location(MODEL, 3, 0, text, text)
    shown = plain(with_finding(title=text, advice=text, location=place))
    assert shown.count(text) == 4


# Paths.


def test_a_file_below_the_current_directory_is_named_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = plain(with_finding(location=Location(str(tmp_path / "nets" / "model.py"), 7)))
    assert "nets/model.py:7" in text
    assert str(tmp_path) not in text


def test_a_rejected_change_is_on_the_page_with_the_reason_alone() -> None:
    report = fixed_report()
    report.fixes[0] = replace(
        report.fixes[0], patch=report.fixes[1].patch, evidence=replace(report.fixes[1].evidence, draws=7)
    )
    page = html.render(report)
    text = Tree(page).text()
    assert "Rejected: it returns another dtype." in text and "7 random ones" not in text
    assert page.count('<tr class="place"><td class="source"><code>--- a/model.py') == 2


def suggested_report() -> Report:
    """As `fixed_report`, but the whole program was not run again."""
    report = fixed_report()
    assert report.fixed is not None and report.fixed.evidence is not None
    reason = "`note` (m.py:6) opens rows.db, so the program is not run again without `--allow-effects`"
    report.fixes = [replace(each, status="suggested", reason=reason) for each in report.fixes[1:]]
    report.fixed.kept, report.fixed.after = [], None
    report.fixed.unfixed += [Unfixed(each, "Some break", None, reason) for each in ("b1", "b2")]
    report.fixed.evidence = replace(report.fixed.evidence, program=WholeProgram(unchecked=[reason]))
    return report


def test_where_nothing_is_verified_it_says_how_to_apply_what_is_suggested() -> None:
    report = suggested_report()
    apply = re.compile(
        r"pply(, not verified| it, not verified:) dynalyze fix model.py (--only [\w,]+ )?--write --unsafe-fixes"
    )
    for shown in (plain(report), Tree(html.render(report)).text()):
        text = " ".join(shown.split())
        assert "Suggested, not verified: changes for 2 of 6 graph breaks." in text
        assert apply.search(text)
        assert "(m.py:6) opens rows.db, so the program is not run again without" in text and "Not verified: " in text
        assert "The whole program, run" not in text and "Reproduce" not in text and "b1 stays" not in text
    assert plain(report).count("rows.db") == 2, "once for each change, and not again for the breaks"
    report.fixes = [report.fixes[1]]  # A setting: no file holds it.
    assert "--unsafe-fixes" not in plain(report)


def test_how_to_go_on_is_one_line_in_every_output() -> None:
    """The command for all breaks that can be changed, and on the page one for each card."""
    report = rich_report()
    report.fix_command = []
    assert "dynalyze fix" not in plain(report)
    report.fix_command = ["fix", "my model.py", "--compile", "net", "--", "--batch", "4"]
    whole = "dynalyze fix 'my model.py' --compile net -- --batch 4"
    (line,) = [line for line in plain(report).splitlines() if "dynalyze fix" in line]
    assert line.split("  # ")[0] == f"Next  {whole}"
    assert "dynalyze fix" in markdown.render(report)
    page = entities.unescape(html.render(report))
    assert whole in page
    for finding in (each for each in report.findings if each.rule == "graph-break"):
        assert f"--compile net --only {','.join(finding.evidence)} -- --batch 4" in page
    report.graph_breaks.clear()
    assert "dynalyze fix" not in plain(report) + markdown.render(report)


def test_what_ended_the_program_is_told_with_its_place_once() -> None:
    place = Location("/home/ada/net.py", 12)
    said = f"The program raised RuntimeError: {'long ' * 200}at /home/ada/net.py:12"
    report = empty_report("failed", said)
    report.outcome.raised_at = place
    text = " ".join(render(report, width=2000).split())
    assert text.count("/home/ada/net.py:12") == 1 and "characters omitted) at /home/ada/net.py:12" in text
