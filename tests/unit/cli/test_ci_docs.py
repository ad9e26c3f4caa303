"""docs/how-to/ci.md names no command or option that is not there, and every group of lines of the doctor."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dynalyze.cli.group import group
from dynalyze.doctor.checks import CHECKS

TEXT = (Path(__file__).parents[3] / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
# Prompts of YAML before a command, and a command over several lines, which a `>` folds.
_FOLDED = re.compile(r"run: >\n(?P<lines>(?: {10}.*\n)+)")
_COMMAND = re.compile(r"^\s*(?:- )*(?:run: |entry: )?(dynalyze [a-z].*)$", re.MULTILINE)


def commands() -> list[str]:
    """Each command of the code blocks, on one line."""
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", TEXT, re.DOTALL))
    folded = _FOLDED.sub(lambda found: f"run: {' '.join(found['lines'].split())}\n", blocks)
    return _COMMAND.findall(folded)


def test_there_are_commands_of_each_kind() -> None:
    assert {command.split()[1] for command in commands()} == {"audit", "explain", "report", "doctor"}


@pytest.mark.parametrize("command", commands())
def test_each_command_is_understood(command: str) -> None:
    _, name, *arguments = shlex.split(command)
    found = group.get_command(group.make_context("dynalyze", [], resilient_parsing=True), name)
    assert found is not None
    found.make_context(name, arguments)  # Raises for an option that is not there.


def test_the_doctor_is_told_whole() -> None:
    told = set(re.findall(r"^\| ([^|]+?) \|", TEXT.partition("## dynalyze doctor")[2], re.MULTILINE))
    assert set(CHECKS) <= told
