"""Idioms of training code, on source text: guards of experts, layers left out by chance, leaves, state in Python."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from rewriting_cases import (
    BRANCH,
    ITEM,
    KNOWN,
    SHAPE,
    TENSOR,
    changed,
    lines,
    private_names_in,
    rewritten,
    site_of,
)

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.rewriting.reads import kept_in_python
from dynalyze.fix.sites import Proposal, Value, with_top

GUARD = "Consider annotating your code using torch._check*(). Could not guard on data-dependent expression"
EXPERTS = {**KNOWN, "self.experts": Value("nn.Module"), "chosen": Value("tensor", dtype="int64", dims=1)}


@pytest.mark.parametrize(
    ("guard", "body"),
    [
        ("places.numel() == 0", "y[places] = expert(x[places]) * weights[places]"),
        ("len(places) < 1", "y.index_add_(0, places, expert(x[places]))"),
        ("not places.numel()", "part = expert(x[places])\n    y[places] += part"),
        ("places.shape[0] == 0", "y[places] = self.f(x[places])"),
    ],
)
def test_a_turn_of_a_loop_over_experts_is_no_longer_left_out(guard: str, body: str) -> None:
    before = "for k, expert in enumerate(self.experts):\n    places = (chosen == k).nonzero().squeeze(-1)\n"
    after = f"    {body}\nreturn y"
    found = changed(GUARD, f"{before}    if {guard}:  # here\n        continue\n{after}", EXPERTS)
    assert found == {"unguarded": f"{before}{after}"}


@pytest.mark.parametrize(
    "body",
    [
        "y = y + expert(x).sum()",  # For all rows, of which there are some.
        "y[places] = expert(x[places]).max()",  # Raises where nothing is chosen.
        "y[places] = expert(x[places])\n    seen.append(k)",
        "part = expert(x[places])\n    y[places] = part\n    last = part\nreturn y, last",
        "y.zero_()\n    y[places] = x[places]",
    ],
)
def test_a_guard_of_more_than_rows_stays(body: str) -> None:
    before = "for k, expert in enumerate(self.experts):\n    places = (chosen == k).nonzero().squeeze(-1)\n"
    after = f"    {body}" if "return" in body else f"    {body}\nreturn y"
    found = changed(GUARD, f"{before}    if places.numel() == 0:  # here\n        continue\n{after}", EXPERTS)
    assert "unguarded" not in found


DROPPED = """
for layer in layers:
    if {test}:  # here
        continue
    x = layer(x)
return x
"""


def test_a_layer_that_is_left_out_by_chance_is_chosen_by_a_random_number_of_torch() -> None:
    known = {**KNOWN, "self.training": Value("bool"), "random": Value("module", "random")}
    skipped = "Attempted to call function marked as skipped"
    found = changed(skipped, DROPPED.format(test="self.training and random.random() < self.p"), known)
    assert found == {
        "dropped-layer": lines("""
            for layer in layers:
                x_before = x
                x = layer(x)
                if self.training:
                    x = torch.where((torch.rand(()) < self.p), x_before, x)
            return x
        """)
    }
    assert changed(skipped, DROPPED.format(test="len(layers) < self.p"), known) == {}
    assert changed(skipped, "if random.random() < self.p:  # here\n    x = x + 1\nreturn x", known) == {}


LOOP = """
import torch
def f(x):
    while x.abs().max() > 1:  # here
        part = x / 2
        x = part - part.mean()
    return {returned}
"""


def test_what_a_loop_assigns_anew_in_each_turn_is_not_carried() -> None:
    """It has no value before the first turn, whatever was seen in a later one."""
    known = {"torch": Value("module", "torch"), "x": TENSOR, "part": TENSOR}
    found = rewritten(LOOP.format(returned="x"), "while-loop", BRANCH, **known)
    assert "def step(x):\n        part = x / 2\n" in found and "part_turned" not in found
    assert not rewritten(LOOP.format(returned="x, part"), "while-loop", BRANCH, **known)


def test_a_leaf_that_is_added_to_has_no_gradient_of_its_own() -> None:
    known = {**KNOWN, "torch.tensor": Value("function", "torch.tensor")}
    gb_type = "Attempted to use tensor creation function with requires_grad=True"
    found = changed(gb_type, "loss = torch.tensor(0.0, requires_grad=True)  # here\nreturn loss + x.sum()", known)
    assert found == {"no-leaf": "loss = torch.tensor(0.0)\nreturn loss + x.sum()"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("self.mean = 0.9 * self.mean + x.mean().item()  # here", "`self.mean` is a number of Python"),
        ("self.mean += x.mean().item()  # here", "`self.mean` is a number of Python"),
        ("m = x.mean().item()  # here\n    self.mean = max(self.mean, m)", "`self.mean` is a number of Python"),
        ("self.losses.append(x.mean().item())  # here", "`self.losses` gets a number of Python in each call"),
        ("self.last = x.mean().item()  # here", ""),
        ("losses = []\n    losses.append(x.mean().item())  # here", ""),
        ("self.mean = self.mean + x.mean()\n    y = x / x.max().item()  # here", ""),
    ],
)
def test_a_number_that_is_kept_in_python_is_told(body: str, said: str) -> None:
    site = site_of(f"import torch\ndef f(self, x):\n    {body}\n    return x\n", ITEM, KNOWN)
    assert kept_in_python(site)[: len(said) or 1] == said
    assert kept_in_python(replace(site, broken=msgspec.structs.replace(site.broken, gb_type="Print"))) == ""


def test_torch_is_imported_beside_what_is_imported_from_it() -> None:
    assert with_top("import os\nfrom torch import nn\nimport sys\n", "import torch\n") == (
        "import os\nimport torch\nfrom torch import nn\nimport sys\n"
    )
    assert with_top("import os\nx = 1\n", "import torch\n") == "import os\nimport torch\nx = 1\n"
    assert with_top("import torch\n", "import torch\n") == "import torch\n"


def test_no_proposal_has_names_that_torch_keeps_for_itself() -> None:
    """Every test of a rewriter asks for it; here is that the question finds something."""
    assert private_names_in("x = 1\n", Proposal("", "x = torch._assert_async(x)\n"))
    assert not private_names_in("x = torch._check(x)\n", Proposal("", "if a:\n    x = torch._check(x)\n"))
    statement = "if x.sum() > 0:  # here\n    raise ValueError('large')\nreturn x"
    assert changed(BRANCH, statement) and changed(SHAPE, "y = x[mask].sum()  # here\nreturn y") and proposals
