"""Recipes about calls and effects: what "before" shows, the search for fixes ends and proves, or says honestly not."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.rules.recipe import find_by_id

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the cookbook speaks of torch 2.13 and later"
)

# Without garbage-collection, which takes long: it is what "debugger" is.
ENDED = {
    "backward-hook": "setting", "break-in-context": "eager-only", "break-in-generator": "eager-only",
    "break-in-loop": "eager-only", "break-in-try": "eager-only", "c-extension": "constant-result",
    "class-statement": "class-at-top", "context-manager": "eager-only-context", "debugger": "eager-only",
    "deepcopy": "clone", "disabled-function": "not-disabled", "explicit-break": "no-asked-break",
    "hash-digest": "constant-result", "logger": "eager-only", "logger-once": "eager-only",
    "operating-system": "constant-result", "print": "eager-only", "progress-bar": "no-progress-bar",
    "reconstruction": "eager-only-context", "recurrent-layer": "setting",
    "warning": "eager-only", "warning-filter": "eager-only-context",
}  # fmt: skip
# The change of these recipes does something else: it draws other numbers, keeps no time, leaves a lock to the caller.
NOT_EQUAL = ("clock", "lock", "numpy-random", "python-random", "random-seed", "requires-grad", "tensor-text",
             "torch-generator")  # fmt: skip


@pytest.mark.parametrize("recipe_id", ENDED)
def test_the_breaks_of_a_recipe_end_and_that_is_proved(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.before.breaks > 0
    assert found.after.breaks == 0
    assert [each.rewrite for each in found.proved] == [ENDED[recipe_id]]
    assert found.proved[0].evidence.outputs == "bitwise"


@pytest.mark.parametrize("recipe_id", NOT_EQUAL)
def test_what_would_do_something_else_is_not_kept(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.proved == []
    assert found.after.breaks == found.before.breaks > 0
