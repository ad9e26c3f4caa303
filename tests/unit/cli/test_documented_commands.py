"""No document names a command or option that is not there, and docs/how-to/ci.md names every check of the doctor."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dynalyze.cli.group import group
from dynalyze.doctor.checks import CHECKS

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Prompts of YAML and of shells before a command, and a command over several lines, which a `>` folds.
_FOLDED = re.compile(r"run: >\n(?P<lines>(?: {10}.*\n)+)")
_COMMAND = re.compile(r"^\s*(?:- )*(?:run: |entry: |\$ )?(dynalyze (?!--)[a-z].*)$", re.MULTILINE)
_INLINE = re.compile(r"`(dynalyze [a-z]+ [^`]*[a-z0-9])`")
_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


def commands(page: Path) -> list[str]:
    """Each command of a page, in a block or a sentence, on one line."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(_BLOCK.findall(text))
    folded = _FOLDED.sub(lambda found: f"run: {' '.join(found['lines'].split())}\n", blocks)
    return [*_COMMAND.findall(folded), *(" ".join(each.split()) for each in _INLINE.findall(_BLOCK.sub("", text)))]


def test_there_are_commands_of_each_kind() -> None:
    named = {command.split()[1] for page in PAGES for command in commands(page)}
    assert set(group.list_commands(group.make_context("dynalyze", [], resilient_parsing=True))) - {"mcp"} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_is_understood(page: Path) -> None:
    for command in commands(page):
        _, name, *arguments = shlex.split(command, comments=True)
        found = group.get_command(group.make_context("dynalyze", [], resilient_parsing=True), name)
        assert found is not None, command
        found.make_context(name, [each for each in arguments if each != "..."])  # Raises for an option not there.


def test_the_doctor_is_told_whole() -> None:
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8").partition("## dynalyze doctor")[2]
    assert set(CHECKS) <= set(re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE))
