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

from dynalyze.capture.fixing.values import look
from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site, Value, walk
from dynalyze.report import GraphBreak, Location
from dynalyze.rules.recipe import Recipe, find_by_id
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")

MENDED = (
    "boolean-mask-sum", "boolean-mask", "conditional-update", "data-dependent-if", "data-dependent-raise",
    "data-dependent-result", "data-dependent-slice", "data-dependent-while", "masked-copy", "masked-update", "nonzero",
    "overflow-clamp", "sorted-tensor", "tensor-assert", "tensor-index-of-list", "tensor-item", "tensor-range",
    "tensor-through-numpy", "tensor-tolist", "unique", "where-indices",
)  # fmt: skip
# How large the result is depends on values, and nothing in the code says how large it can be.
BY_DATA = {
    "bincount": "size-known-when-run", "data-dependent-size": "number-known-when-run",
    "repeat-interleave": "size-known-when-run",
}  # fmt: skip


def cases(names: tuple[str, ...]) -> list[Any]:
    """The recipes' own examples, and other statements of their shape."""
    own = [pytest.param(recipe, id=name) for name in names if (recipe := find_by_id(name)) is not None]
    others = [each for each in FITTING if each.recipe in names]
    return own + [
        pytest.param(replaced(each.recipe, before=each.before, inputs=each.inputs), id=f"{each.recipe}-{number}")
        for number, each in enumerate(others)
    ]


EXPERTS = """
import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.experts = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(2)])
        self.gate = torch.nn.Linear(3, 2)

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            {body}
        return out


experts = Experts()


def f(x):
    return experts(x)
"""
ROWS = """rows = torch.where(chosen == number)[0]
            if len(rows) > 0:
                out.index_add_(0, rows, expert(x[rows]) * weight[rows, None])"""
MASK = """mask = chosen == number
            if mask.any():
                out[mask] = expert(x[mask]) * weight[mask].unsqueeze(-1)"""
HIT_EXPERTS = (
    EXPERTS.partition("        for number")[0]
    + """
        weight = weight[:, None]
        sent = torch.nn.functional.one_hot(chosen[:, None], 2).permute(2, 1, 0)
        hit = torch.greater(sent.sum(dim=(-1, -2)), 0).nonzero()
        for e in hit:
            slot, row = torch.where(sent[e].squeeze(0))
            y = self.experts[e](x[None, row].reshape(-1, x.shape[-1])) * weight[row, slot, None]
            out.index_add_(0, row, y.to(x.dtype))
        return out


experts = Experts()


def f(x):
    return experts(x)
"""
)
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
    "row-of-the-largest": """
def f(x):
    at = x.sum(1).argmax().item()
    return x[at]
""",
    "masked-loss": """
def f(x):
    valid = x[x > 0]
    return valid.sum() / valid.numel()
""",
    "rows-of-experts": EXPERTS.replace("{body}", ROWS),
    "mask-of-experts": EXPERTS.replace("{body}", MASK),
    "hit-experts": HIT_EXPERTS,
    "hit-experts-but-one": HIT_EXPERTS.replace(
        "in hit:", "in hit:\n            e = e[0]\n            if e == 2:\n                continue"
    )
    .replace("[e].squeeze(0)", "[e]")
    .replace("slot, None]", "slot, None].float()"),
    "hit-experts-of-weights": HIT_EXPERTS.replace(
        "y = self.experts[e](x[None, row].reshape(-1, x.shape[-1])) * weight",
        "y = torch.nn.functional.linear(x[row], self.weights[e[0]]) * weight",
    ).replace(
        "self.gate = torch.nn.Linear(3, 2)",
        "self.gate, self.weights = torch.nn.Linear(3, 2), torch.nn.Parameter(torch.rand(2, 3, 3))",
    ),
    "count-in-a-condition": """
def f(x):
    mask = x > -9
    if x is not None and x[mask].numel() != 6:
        raise ValueError("not all of them")
    return x * 2
""",
    "rows-put-back": """
def f(x):
    mask = x.sum(-1) > 0
    y = x * 2
    y = y.masked_scatter(mask.unsqueeze(-1), torch.nn.functional.softmax(y[mask], -1) + y[mask])
    t = y[~mask] * 3
    y[~mask] += t
    return y
""",
}
GRADIENT = "(torch.tensor([[1.0, -2.0, 3.0], [0.5, 1.5, -1.0]], requires_grad=True),)"


@pytest.mark.parametrize("name", mostly_slow(OTHERS))
def test_what_programs_do_with_values(name: str, tmp_path: Path) -> None:
    assert mended(replaced("data-dependent-if", before=f"import torch\n{OTHERS[name]}", inputs=GRADIENT), tmp_path)


@pytest.mark.parametrize("recipe", mostly_slow(cases(MENDED)))
def test_a_change_makes_it_one_graph(recipe: Recipe, tmp_path: Path) -> None:
    assert mended(in_lines(recipe), tmp_path)


@pytest.mark.parametrize("recipe", cases(tuple(BY_DATA)))
def test_sizes_that_only_values_know_are_learned_when_it_runs(recipe: Recipe, tmp_path: Path) -> None:
    assert mended(in_lines(recipe), tmp_path)[-1:] == (BY_DATA[recipe.id],)


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
    values = {text: Value.of(each) for text, each in known.get((file, line), {}).items()}
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
