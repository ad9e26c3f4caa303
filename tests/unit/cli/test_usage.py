"""Help in sections, and what people type by mistake: one line that says what to type instead."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from dynalyze.cli.group import group, run


def help_of(command: str) -> str:
    known = group.get_command(click.Context(group), command)
    assert known is not None
    return known.get_help(click.Context(known, info_name=command))


def test_the_options_of_explain_stand_in_sections_on_two_screens() -> None:
    lines = help_of("explain").splitlines()
    titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Target:", "Compile:", "Models of libraries:", "Output:", "Privacy:", "Limits:", "More:"]
    assert len(lines) <= 2 * 48


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1
    return error


def test_a_slip_is_told_with_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    error = said(capsys, "explain", "model.py", "--htlm", "x")
    assert "--html" in error and "dynalyze explain --help lists what there is" in error


@pytest.mark.parametrize("command", ["explain", "bench", "audit", "sweep"])
def test_options_of_the_program_stand_after_the_dashes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = said(capsys, command, "train.py", "--epochs", "3")
    assert "No such option '--epochs'." in error
    assert error.rstrip().endswith("what is for your program stands after --.")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("explian", "Did you mean 'explain'?"),
        ("model.py", "Did you mean dynalyze explain model.py?"),
        ("model.py:Net", "Did you mean dynalyze explain model.py:Net?"),
        ("hf:LlamaModel", "Did you mean dynalyze explain hf:LlamaModel?"),
        ("report.json", "Did you mean dynalyze report report.json?"),
        ("frobnicate", "There are explain, bench, audit,"),
    ],
)
def test_a_command_that_does_not_exist(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert meant in said(capsys, typed, "--html", "x")


@pytest.mark.parametrize("targets", ['["--train"]', '["model.py", "--train"]', '["model.py \'x"]', '["a.py --nope"]'])
def test_a_slip_in_the_targets_of_a_project_is_told_before_anything_runs(
    targets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f"[tool.dynalyze.audit]\ntargets = {targets}\n")
    assert "a fault of dynalyze" not in said(capsys, "audit")
