"""The table of what does not go together, and the catalogue's examples."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dynalyze.rules.catalogue import entry
from dynalyze.rules.rule import Rule, rules

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
IN_THE_TABLE = re.compile(r"^\|.*\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*) \| [^|]+ \|$", re.MULTILINE)
WITH_EXAMPLE = [rule for rule in rules() if rule.example is not None]


def named() -> set[str]:
    cells = IN_THE_TABLE.findall(PAGE.read_text(encoding="utf-8"))
    return {each for cell in cells for each in re.findall(r"`([^`]+)`", cell)}


def test_the_table_names_rules_that_there_are_and_all_that_say_what_to_do() -> None:
    known = {rule_id for rule in rules() for rule_id in rule.ids}
    assert named() <= known
    assert {rule.id for rule in rules() if rule.fix} - named() <= {"accelerate-settings", "compile-a-part"}


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.id)
def test_an_example_is_python_and_is_shown(rule: Rule) -> None:
    assert rule.example is not None
    for source in (rule.example.before, rule.example.after):
        ast.parse(source)
    shown = entry(rule.id)
    assert shown is not None and "What to do:" in shown
    assert rule.example.after.strip().splitlines()[0] in shown


def test_what_to_do_is_plain_prose() -> None:
    for rule in rules():
        assert not rule.fix or (rule.fix[0].isupper() and rule.fix.endswith("."))
