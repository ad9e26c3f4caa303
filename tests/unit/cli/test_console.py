"""Lines for people: where they end, what stays whole, and when there is no colour."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from rich.text import Text

from dynalyze.capture import environment
from dynalyze.capture.wire import RUN_VARIABLE, TRACE_FOLDER, TRACE_VARIABLE
from dynalyze.cli.files import print_document
from dynalyze.launch.streams import Streams, progress_line
from dynalyze.render.console import Summary
from dynalyze.rules import catalogue

CODE = "`torch._dynamo.mark_dynamic(x, 0)`"


def summary(width: int = 40) -> Summary:
    return Summary(color=False, width=width)


@pytest.mark.parametrize("width", [80, 60, 50, 44])
def test_no_line_ends_inside_of_code_that_fits_on_one(width: int) -> None:
    for padding in range(40):
        made = summary(width)
        made.action(f"{'a ' * padding}{CODE} or `compile(..., dynamic=True)`.")
        text = made.text()
        assert CODE in text and "`compile(..., dynamic=True)`" in text
        assert max(map(len, text.splitlines())) <= width


def test_what_belongs_to_a_mark_stands_below_its_text() -> None:
    made = summary()
    made.beside(Text("✗ 1."), Text("word " * 20))
    made.action("word " * 20)
    first, *rest = made.text().splitlines()
    assert first.startswith("✗ 1. word")
    assert {line[:5] for line in rest if "→" not in line} == {"     "}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output and standard error are one; returns it."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


@pytest.mark.parametrize(
    ("name", "value", "colored"), [("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False)]
)
def test_when_there_is_colour(name: str, value: str, colored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    made = Summary()
    made.line("text", style="bold red")
    assert ("\x1b" in made.text()) is colored


def test_a_terminal_that_can_erase_nothing_gets_progress_as_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    tell, every = progress_line(Streams("model.py"))
    tell("3 s: 1 compilation\x1b[2J")
    assert terminal.getvalue() == "dynalyze: 3 s: 1 compilation␛[2J\n"
    assert every > 1


# The catalogue.


@pytest.mark.parametrize("width", [80, 60])
def test_the_catalogue_fits_its_width_but_for_code_and_links(width: int) -> None:
    texts = [catalogue.overview(width), *(str(catalogue.entry(each, width)) for each in catalogue.known_ids())]
    too_long = [line for text in texts for line in text.split("\n") if len(line) > width]
    assert [line for line in too_long if " " in line.strip() and not line.startswith("    ")] == []


# Pieces.


def test_a_document_is_utf_8_whatever_the_terminal_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    print_document('{"mark": "✗ é"}\n')
    assert raw.getvalue().decode() == '{"mark": "✗ é"}\n'


def test_our_own_folder_for_logs_is_no_setting_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = type("Torch", (), {"__version__": "2.13.0", "__file__": os.devnull, "version": None})
    monkeypatch.setenv(RUN_VARIABLE, str(tmp_path))
    monkeypatch.setenv(TRACE_VARIABLE, str(tmp_path / TRACE_FOLDER))
    assert TRACE_VARIABLE not in environment.torch_facts(torch).variables  # type: ignore[arg-type]
    monkeypatch.setenv(TRACE_VARIABLE, "/logs")
    assert environment.torch_facts(torch).variables[TRACE_VARIABLE] == "/logs"  # type: ignore[arg-type]
