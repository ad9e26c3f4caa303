"""Recipes about calls and effects: what "before" shows, the search for fixes ends and verifies, or says honestly
not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.rules.recipe import find_by_id
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the cookbook speaks of torch 2.13 and later"
)

# Without those whose cause is another one's too.
ENDED = {
    "autograd-grad": "setting", "backward-hook": "setting", "break-in-context": "eager-only",
    "break-in-generator": "eager-only",
    "context-manager": "eager-only-context", "data-dependent-size": "setting", "debugger": "eager-only",
    "explicit-break": "no-asked-break", "logger": "eager-only",
    "logger-once": "eager-only", "print": "eager-only",
    "reconstruction": "eager-only-context", "recurrent-layer": "setting",
    "unique": "setting", "warning": "eager-only",
}  # fmt: skip
# The change of these recipes does something else: it draws other numbers, keeps no times, leaves a lock to the caller,
# copies an input.
NOT_EQUAL = ("clock", "layer-drop", "lock", "numpy-random", "python-random", "random-branch", "random-seed",
             "requires-grad", "sort-key", "tensor-text", "torch-generator")  # fmt: skip


@pytest.mark.parametrize("recipe_id", mostly_slow(ENDED, every=16))
def test_the_breaks_of_a_recipe_end_and_that_is_proved(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.before.breaks > 0
    assert found.after.breaks == 0
    assert [each.rewrite for each in found.verified] == [ENDED[recipe_id]]
    assert found.verified[0].evidence.outputs == "bitwise"


@pytest.mark.parametrize("recipe_id", mostly_slow(NOT_EQUAL, every=11))
def test_what_would_do_something_else_is_not_kept(recipe_id: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    recipe = find_by_id(recipe_id)
    assert recipe is not None
    for name in recipe.requires:
        pytest.importorskip(name)
    found = search(recipe.before, recipe.inputs, tmp_path)
    assert found.verified == []
    assert found.after.breaks == found.before.breaks > 0


@pytest.mark.slow
def test_one_change_after_the_other_leaves_one_graph(tmp_path: Path) -> None:
    """What is behind a break shows once that is gone, at the lines that it has then."""
    from fixing_in_process import search

    source = """
import time
import warnings

import torch


def part(x):
    start = time.time()
    y = torch.relu(x)
    print("took", time.time() - start > 60)
    return y


def f(x):
    y = part(x)
    warnings.warn("slow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.sqrt(y)
    print(y.mean().item())
    return y
"""
    found = search(source, "(torch.ones(3),)", tmp_path)
    assert found.after.breaks == 0
    assert found.after.graphs == 1
    assert found.text.count("is_compiling()") == 6
    assert "if not torch.compiler.is_compiling():\n        if not" not in found.text
