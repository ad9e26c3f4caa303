"""What the catalogue shows of a rule: what to do, before and after."""

from __future__ import annotations

import ast

import pytest

from dynalyze.rules.catalogue import entry
from dynalyze.rules.recipe import recipes
from dynalyze.rules.rule import Rule, rules

WITH_EXAMPLE = [rule for rule in rules() if rule.example is not None]


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.id)
def test_an_example_is_python_and_is_shown(rule: Rule) -> None:
    assert rule.example is not None
    for source in (rule.example.before, rule.example.after):
        ast.parse(source)
    shown = entry(rule.id)
    assert shown is not None and "What to do:" in shown
    assert rule.example.after.strip().splitlines()[0] in shown


def test_a_recipe_is_shown_beside_a_finding_of_its_id() -> None:
    for recipe in recipes():
        shown = entry(recipe.id) or ""
        assert " ".join(recipe.why.split()) in " ".join(shown.split()), recipe.id
