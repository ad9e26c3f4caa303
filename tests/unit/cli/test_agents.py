"""What coding agents are told: one text in the package; --brief, and how to go on."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

import dynalyze
from dynalyze.cli.explain import same_call
from dynalyze.cli.group import group, run

SKILL = Path(dynalyze.__file__).parent / "data" / "SKILL.md"


def test_the_skill_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--skill"]) == 0
    assert capsys.readouterr().out == SKILL.read_text()


def test_an_agents_file_is_the_skill_without_its_head() -> None:
    """docs/how-to/agents.md cuts it off by its lines."""
    lines = SKILL.read_text().splitlines()
    assert (lines[0], lines[1], lines[3]) == ("---", "name: dynalyze", "---") and lines[2].startswith("description: ")
    assert lines[5] == "# torch.compile problems with dynalyze"


@pytest.mark.parametrize("command", ["explain", "fix", "verify", "report"])
def test_brief_is_of_the_json(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.py"
    file.write_text("x = 1\n")
    (tmp_path / "new.py").write_text("x = 2\n")
    (tmp_path / "r.json").write_text("{}")
    given = {"verify": [str(file), str(tmp_path / "new.py")], "report": [str(tmp_path / "r.json")]}
    assert run([command, *given.get(command, [str(file)]), "--brief", "--html", str(tmp_path / "x.html")]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and "--json" in error


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["model.py", "--json", "-", "--brief", "--no-bench"], ["model.py", "--no-bench"]),
        (["-m", "a.b", "--compile", "model.net", "--eval", "--", "--epochs", "2"],
         ["-m", "a.b", "--compile", "model.net", "--eval", "--", "--epochs", "2"]),
        (["hf:LlamaModel", "--python", "/usr/bin/python3", "--stop-after", "3", "--artifacts", "d"],
         ["hf:LlamaModel", "--python", "/usr/bin/python3"]),
        (["m.py:f", "--input", "torch.ones(2, 3)", "--fail-on", "error", "--html", "x.html"],
         ["m.py:f", "--input", "torch.ones(2, 3)"]),
    ],
)  # fmt: skip
def test_the_command_for_the_same_target(typed: list[str], kept: list[str]) -> None:
    """What `fix` has no option for, and where outputs go, is left out; the rest stays."""
    with click.Context(group) as above:
        command = group.get_command(above, "explain")
        assert command is not None
        context = command.make_context("explain", typed, parent=above)
    said = same_call(context, "fix")
    words = lambda each: sorted(each[: each.index("--")] if "--" in each else each)  # noqa: E731
    assert said[0] == "fix" and words(said[1:]) == words(kept)
    assert said[-3:] == kept[-3:] if "--" in kept else "--" not in said
