"""Rewriters of data-dependent breaks, tried on what the cookbook's recipes and statements of their shape look like.

The truth is torch's: the changed code is one graph, and gives the results, and gradients, of the code as it was.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cookbook_statements import FITTING
from test_cookbook import compiled_run, eager_result, gradients, plain, replaced, turned
from test_cookbook import load as loaded

from dynalyze.capture.fixing.watching import look
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site, Value, walk
from dynalyze.report import GraphBreak, Location
from dynalyze.rules.recipe import Recipe, find_by_id
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")

MENDED = (
    "boolean-mask-sum", "boolean-mask", "conditional-update", "data-dependent-if", "data-dependent-raise",
    "data-dependent-result", "data-dependent-while", "masked-copy", "masked-update",
    "overflow-clamp", "tensor-assert", "tensor-item",
)  # fmt: skip

OF_PYTHON = ("h.max().item() * 2", "table.gains[which]")
"""Statements of these shapes that compute with Python's numbers, which are something else in a tensor."""


def cases(names: tuple[str, ...]) -> list[Any]:
    """The recipes' own examples, and other statements of their shape."""
    own = [pytest.param(recipe, id=name) for name in names if (recipe := find_by_id(name)) is not None]
    others = [each for each in FITTING if each.recipe in names and not any(one in each.before for one in OF_PYTHON)]
    return own + [
        pytest.param(replaced(each.recipe, before=each.before, inputs=each.inputs), id=f"{each.recipe}-{number}")
        for number, each in enumerate(others)
    ]


OTHERS = {
    "early-return": """
def f(x):
    y = x * 2
    if y.isnan().any():
        return torch.zeros_like(x)
    z = y.exp()
    if z.sum() > 3:
        return z
    for number in range(2):
        z = z + number
    return z
""",
    "branch-in-branch": """
def f(x):
    if x.sum() > 0:
        if x.max() > 2:
            x = x.exp()
        else:
            x = x * 3
        x = x + 1
    return x
""",
    "branch-in-loop": """
def f(x):
    for number in range(3):
        if number > 0 and x.sum() > number:
            x = x * 0.5
    return x
""",
    "counted-while": """
def f(x):
    turns = 0
    while x.abs().max() > 1 and turns < 10:
        x = x / 2
        turns += 1
    return x
""",
}
GRADIENT = "(torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]], requires_grad=True),)"


@pytest.mark.parametrize("name", mostly_slow(OTHERS))
def test_what_programs_do_with_values(name: str, tmp_path: Path) -> None:
    assert mended(replaced("data-dependent-if", before=f"import torch\n{OTHERS[name]}", inputs=GRADIENT), tmp_path)


@pytest.mark.parametrize("recipe", mostly_slow(cases(MENDED), every=12))
def test_a_change_makes_it_one_graph(recipe: Recipe, tmp_path: Path) -> None:
    assert mended(in_lines(recipe), tmp_path)


def in_lines(recipe: Recipe) -> Recipe:
    """Functions of one line in two."""
    return replaced(
        recipe.id, before=re.sub(r"(?m)^(def f\(.*?\)): (\S)", r"\1:\n    \2", recipe.before), inputs=recipe.inputs
    )


def mended(recipe: Recipe, folder: Path, deepest: int = 3) -> tuple[str, ...]:
    """The rewrites after which no break is left and all is as it was; empty where there are none."""
    module = load(recipe, folder)
    run = compiled_run(module, recipe)
    if not deepest or not run.breaks:
        return ()
    for proposal in proposals(site_of(module, run.breaks[0], recipe)):
        new = replaced(recipe.id, before=proposal.source, inputs=recipe.inputs)
        if proposal.settings:
            continue
        if same(recipe, new, folder):
            after = compiled_run(load(new, folder), new)
            if not after.breaks and after.error is None and after.operations:
                return (proposal.rewrite,)
            if further := mended(new, folder, deepest - 1):
                return (proposal.rewrite, *further)
    return ()


def site_of(module: Any, broken: Any, recipe: Recipe) -> Site:
    file, line = module.__file__, broken.line
    location = Location(file, line, None, "f")
    found = GraphBreak("b1", None, broken.gb_type, "split", location, [location])
    site = Site(found, recipe.before, line)
    names = [site.code(node) for each in [site.statement, *site.following] for node in walk(each)]
    known = look({(file, line): ["torch", *names]}, lambda: eager_result(module, recipe))
    values = {text: Value(**each) for text, each in known.get((file, line), {}).items()}
    return Site(found, recipe.before, line, values)


def load(recipe: Recipe, folder: Path) -> Any:
    """A module that Dynamo can import again, as it does for what torch.cond calls."""
    module = loaded(recipe, "before", folder)
    sys.modules[module.__name__] = module
    return module


def same(old: Recipe, new: Recipe, folder: Path) -> bool:
    """Whether both give the same on the recipe's inputs and on those of other sign, and have the same gradients."""
    for change in (lambda value: value, turned):
        one, other = (outcome(each, folder, change) for each in (old, new))
        if isinstance(one, type) or isinstance(other, type):
            if one is not other:
                return False
            continue
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError:
            return False
    wanted, got = (gradients(load(each, folder), each, compiled=False) for each in (old, new))
    return all(torch.allclose(mine, theirs) for mine, theirs in zip(wanted, got, strict=True))


def outcome(recipe: Recipe, folder: Path, change: Any) -> Any:
    """What the function gives, or the type of what it raises."""
    try:
        return plain(eager_result(load(recipe, folder), recipe, change))
    except Exception as error:
        return type(error)
