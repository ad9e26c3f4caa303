"""Whatever a run, a log or a command line holds: what we print shows it, and does nothing else."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from dynalyze.cli.group import run
from dynalyze.comparison.reports import compare
from dynalyze.doctor import checks as doctor_checks
from dynalyze.doctor.checks import diagnose
from dynalyze.doctor.records import Diagnosis, Facts
from dynalyze.launch.streams import Streams
from dynalyze.render import bug_report, comparison_text, markdown, terminal
from dynalyze.report import Report
from dynalyze.report.document import from_json, to_json
from dynalyze.rules import catalogue
from dynalyze.rules.rule import judge
from dynalyze.sweep import compare as compared_sweeps
from dynalyze.sweep import pages
from dynalyze.sweep import terminal as sweep_text
from dynalyze.sweep.compare import SweepComparison
from dynalyze.sweep.drive import SweepProgress
from dynalyze.sweep.records import Row, Sweep
from dynalyze.testing import checks
from dynalyze.text.escape import notice, one_line, visible
from dynalyze.text.json_text import json_text
from hostile_texts import EXPLICIT, FORGED, HIDDEN, LINE_ENDS, TEXTS, harmful
from records import Choose, filled, filled_report, first
from sample_reports import HOSTILE, empty_report, hostile_report, rich_report
from sample_sweeps import hostile_sweep, small_sweep

COLOURS = re.compile(r"\x1b\[[\d;]*m")
NARROW, WHOLE = (80, 60, 40), 200_000
EVIL = " ".join(EXPLICIT)


def last(values: Sequence[Any]) -> Any:
    return values[-1]


def judged(text: str, choose: Choose) -> Report:
    """As a report really comes: its findings quote the facts."""
    report = filled_report(text, choose)
    report.findings = judge(report)
    return report


def matched_sweeps(text: str, choose: Choose) -> SweepComparison:
    return compared_sweeps.compare(filled(Sweep, text, choose), filled(Sweep, text))


def explained(report: Report) -> Report:
    """Without fixes, which have a summary of their own."""
    report.fixed = None
    return report


# What is printed, from a document in which every text is the one given.
PRINTED: dict[str, Callable[..., str]] = {
    "explain": lambda text, choose, **how: terminal.render(explained(filled_report(text, choose)), **how),
    "explain, judged": lambda text, choose, **how: terminal.render(explained(judged(text, choose)), **how),
    "fix": lambda text, choose, **how: terminal.render(filled_report(text, choose), **how),
    "explain, by hand": lambda text, choose, **how: terminal.render(hostile_report(), **how),
    "diff, new": lambda text, choose, **how: comparison_text.render_comparison(
        compare(empty_report(), filled_report(text, choose)), **how
    ),
    "diff, gone": lambda text, choose, **how: comparison_text.render_comparison(
        compare(filled_report(text, choose), rich_report()), **how
    ),
    "sweep": lambda text, choose, **how: sweep_text.render(filled(Sweep, text, choose), **how),
    "sweep, by hand": lambda text, choose, **how: sweep_text.render(hostile_sweep(), **how),
    "diff of sweeps": lambda text, choose, **how: sweep_text.render_diff(
        filled(SweepComparison, text, choose), **how
    ),
    "diff of sweeps, matched": lambda text, choose, **how: sweep_text.render_diff(
        matched_sweeps(text, choose), **how
    ),
    "doctor": lambda text, choose, **how: doctor_checks.render(filled(Diagnosis, text, choose), **how),
    "doctor, asked": lambda text, choose, **how: doctor_checks.render(diagnose(filled(Facts, text, choose)), **how),
}  # fmt: skip


def plain(name: str, text: str, choose: Choose = first, width: int = 80) -> str:
    return PRINTED[name](text, choose, color=False, width=width)


def forged(shown: str) -> list[str]:
    """Lines that the text began, not we. They are looked at where none is wrapped."""
    return [line for line in shown.split("\n") if line.lstrip().startswith(FORGED)]


@pytest.mark.parametrize("choose", [first, last])
@pytest.mark.parametrize("name", PRINTED)
def test_no_hostile_text_distorts_a_line(name: str, choose: Choose) -> None:
    shown = plain(name, EVIL, choose)
    assert harmful(shown) == set()
    assert forged(plain(name, EVIL, choose, WHOLE)) == []
    colored = PRINTED[name](EVIL, choose, color=True, width=80)
    assert [line.rstrip() for line in COLOURS.sub("", colored).split("\n")] == shown.split("\n")


@pytest.mark.parametrize("name", PRINTED)
@settings(max_examples=10)
@given(text=TEXTS, chance=st.randoms(use_true_random=False), width=st.sampled_from(NARROW))
def test_no_text_at_all_distorts_a_line(name: str, text: str, chance: Any, width: int) -> None:
    state = chance.getstate()
    assert harmful(plain(name, text, chance.choice, width)) == set()
    chance.setstate(state)
    assert forged(plain(name, f"x{text}\n{FORGED}", chance.choice, WHOLE)) == []


@pytest.mark.parametrize("width", NARROW[::2])
@pytest.mark.parametrize("name", [name for name in PRINTED if not name.startswith("doctor")])
def test_no_line_leaves_the_terminal(name: str, width: int) -> None:
    for text in (HOSTILE, "日本語" * 20, "word " * 60, "long_name." * 40, "`code(a, b)` " * 9):
        lines = plain(name, text, width=width).split("\n")
        # Neither a command nor a setting is wrapped: they are there to be copied.
        copied = ("Next  ", "Reproduce  ", "Apply, not verified  ", "   setting  ")
        assert [line for line in lines if cell_len(line) > width and not line.startswith(copied)] == []


def test_a_doctors_line_is_long_only_where_it_is_to_be_copied() -> None:
    lines = plain("doctor", "long_name." * 40, width=60).split("\n")
    assert all(cell_len(line) <= 60 or line.lstrip().startswith("→ ") for line in lines)


def test_names_of_files_that_were_written() -> None:
    for text in EXPLICIT:
        for rendered in (
            terminal.render(empty_report(), files=[("Page", text)], color=False, width=80),
            sweep_text.render(small_sweep(), files=[("Index", text)], color=False, width=80),
        ):
            assert harmful(rendered) == set()
            assert rendered.splitlines()[-1].split("  ")[0] in ("Page", "Index")


# What a comment or an issue is made of.


@pytest.mark.parametrize("renderer", [markdown, bug_report], ids=lambda module: module.__name__)
def test_no_hostile_text_distorts_a_comment(renderer: Any) -> None:
    for report in (filled_report(EVIL, last), judged(EVIL, first), hostile_report()):
        assert harmful(renderer.render(report)) == set()


@pytest.mark.parametrize("renderer", [markdown, bug_report], ids=lambda module: module.__name__)
@settings(max_examples=15)
@given(text=TEXTS, chance=st.randoms(use_true_random=False))
def test_no_text_at_all_changes_the_shape_of_a_comment(renderer: Any, text: str, chance: Any) -> None:
    """Headings, lists, tables and blocks are the same as around a text that is a plain word."""
    state = chance.getstate()
    shown = renderer.render(filled_report(f"x{text}", chance.choice))
    chance.setstate(state)
    assert harmful(shown) == set()
    assert shape(shown) == shape(renderer.render(filled_report("x", chance.choice)))


def shape(text: str) -> list[str]:
    return [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]


def test_a_command_in_an_issue_is_one_line_that_can_be_pasted() -> None:
    report = rich_report()
    report.command = ["explain", "model.py:Net", "--input", "torch.randn(2, 8)", "x\nrm -rf ~"]
    text = bug_report.render(report)
    assert "dynalyze explain model.py:Net --input 'torch.randn(2, 8)' 'x␊rm -rf ~'\n" in text


# JSON may stand on standard output as well.


def test_json_can_be_looked_at_and_says_the_same() -> None:
    text = EVIL.encode(errors="ignore").decode()  # Lone surrogates do not get as far.
    report = filled_report(text)
    shown = to_json(report)
    assert harmful(shown) == set()
    assert from_json(shown) == report
    sweep = filled(Sweep, text)
    for document in (json_text(sweep), pages.diff_json(compared_sweeps.compare(sweep, small_sweep()))):
        assert harmful(document) == set()
    assert harmful(comparison_text.render_comparison_json(compare(empty_report(), report))) == set()


# Standard error, and what a failing test says.


class Screen(io.StringIO):
    """A terminal, which is told what to do by nobody but us."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("text", EXPLICIT, ids=ascii)
def test_the_line_about_an_item_that_failed(text: str) -> None:
    stream = io.StringIO()
    row = filled(Row, text, last)
    finished = type("Finished", (), {"row": row, "output": "its own \x1b[31mlast\x1b[0m line"})
    SweepProgress(3, 0, stream=stream).done(finished)  # type: ignore[arg-type]
    line, printed = stream.getvalue().split("\n")[:2]
    assert line == notice(f"{text} ({text}): {row.status}: {text}")
    assert harmful(line) == set()
    assert printed == f"{one_line(text)} | its own \x1b[31mlast\x1b[0m line", "what it printed itself is passed on"


@pytest.mark.parametrize("text", EXPLICIT, ids=ascii)
def test_the_label_before_what_the_target_prints(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    streams = Streams(text, stream=screen)
    streams.feed("stdout", b"\x1b[1mits own\n")
    streams.status(f"measuring {text}")
    streams.close()
    ours = screen.getvalue().replace("\x1b[1mits own", "").replace("\r\x1b[K", "").replace("\x1b[0m", "")
    assert harmful(ours) == set()
    assert screen.getvalue().startswith(f"{one_line(text)} | \x1b[1mits own\n")


def test_what_a_failing_test_says() -> None:
    report = judged(EVIL, first)
    report.outcome.status = "nothing_compiled"
    report.compilations[0].status = "failed"
    said = [
        checks.whole_graphs(report, None), checks.no_recompiles(report, None), checks.nothing_checked(report),
        checks.compiles(report, ValueError(f"torch says\n{EVIL}")),
    ]  # fmt: skip
    assert all(said)
    assert [harmful(each) for each in said] == [set()] * 4


# Wrong calls quote what was typed.

# An argument of a process holds no NUL; undecodable bytes come as lone surrogates.
TYPED = [text.replace("\0", "").replace("\ud800", "") for text in EXPLICIT]
CALLS = """
{}; --{}; explain; explain {}; explain {}.py; explain {}.py:Net; explain --{}; explain -m {} m.py
explain m.py --input {}(; explain m.py --python {}; explain m.py --timeout {}; explain m.py --dynamic {}
explain m.py --fail-on {}; explain m.py --json {}/r.json; explain m.py --html {}/r.html; explain m.py -o {}
explain hf:{} --batch {}; report {}; report m.py; report m.py --source-root {}; diff {} {}; diff m.py m.py --html {}/x
rules {}; rules print {}; doctor {}; doctor --python {}; bench m.py --configs {}; bench m.py --shapes {}
bench m.py --batch {}; audit m.py --policy {}; audit m.py --baseline {}; audit m.py --shapes {}; audit m.py --dim {}
sweep m.py --workers {}; sweep m.py --memory {}; sweep m.py --configs {}; sweep {}.toml --out {}/x
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("x = 1\n")
    yield tmp_path


@pytest.mark.parametrize("call", CALLS.strip().replace("\n", "; ").split("; "))
def test_a_wrong_call_is_one_line_whatever_was_typed(here: Path, call: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in (TYPED[0], " ".join(TYPED)[:200], "".join(sorted(HIDDEN - set("\0\ud800")))):
        arguments = [part.replace("{}", text) for part in call.split()]
        assert run(arguments) in (1, 2), arguments
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith("dynalyze: ") and error.count("\n") == 1, error
        assert harmful(error) == set(), arguments


# The catalogue is ours and PyTorch's.


def test_the_catalogue_is_printable() -> None:
    texts = [catalogue.overview(), *(str(catalogue.entry(each)) for each in catalogue.known_ids())]
    assert {text[:20] for text in texts if harmful(text)} == set()


# What is hidden, and what is not.


@settings(max_examples=100)
@given(st.characters())
def test_each_character_is_shown_in_its_own_place(character: str) -> None:
    assert harmful(visible(character)) == set()
    assert visible(f"a{character}b") == f"a{visible(character)}b"
    assert visible(visible(character)) == visible(character)


def test_what_is_printable_stays() -> None:
    for text in ("naïve façade", "日本語 변수", "مرحبا שלום", "⚠️ 🔥 👍🏽", "x = {'a': 1}  # ok"):
        assert visible(text) == text


def test_the_texts_of_these_tests_are_harmful() -> None:
    assert [text for text in EXPLICIT if not harmful(text) and "\n" not in text] == EXPLICIT[-2:]
    assert {"\x1b", "\x9b", "\x85", "\u2028", "\u202e", "\u2066", "\u200b", "\udce9", "\x00"} <= HIDDEN
    assert all(len(one_line(f"a{end}b").splitlines()) == 1 for end in LINE_ENDS)
    assert sys.stderr is not None
