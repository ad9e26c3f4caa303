"""Idioms of training code that people outside of any list of models write, through the whole search for fixes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")

HEAD = "import random\n\nimport torch\nfrom torch import nn\n"
NET = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.fc = nn.Linear(4, 3), nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.average, self.losses, self.p = 0.0, [], 0.3

    def forward(self, x):
{body}


torch.manual_seed(0)
net = Net()


def f(x):
    return net(x)
"""
EXPERTS = """
        weight, chosen = self.gate(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.layers):
            {body}
        return out
"""
LOOP = """

def f(x):
    while x.abs().max() > 1:
        half = x / 2
        x = half - half.mean()
    return {returned}
"""


def net(body: str) -> str:
    return HEAD + NET.replace("{body}", body.strip("\n"))


def experts(body: str) -> str:
    return net(EXPERTS.replace("{body}", body))


ROWS = """rows = (chosen == number).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            out[rows] = expert(x[rows]) * weight[rows].unsqueeze(-1)"""
ADDED = """rows = torch.where(chosen == number)[0]
            if len(rows) == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weight[rows, None])"""
MASK = """mask = chosen == number
            if not mask.any():
                continue
            out[mask] += expert(x[mask])"""
DROPPED = """
        for layer in self.layers:
            if self.training and {draw} < self.p:
                continue
            x = torch.relu(layer(x))
        return self.fc(x)
"""
SIZES = {"capture_dynamic_output_shape_ops": True}
LEAF = f"{HEAD}\n\ndef f(x):\n    loss = torch.tensor(0., requires_grad=True)\n    return loss + x.square().mean()\n"
BATCH, GRADIENT = "(torch.randn(6, 4),)", "(torch.randn(6, 4, requires_grad=True),)"

# A program, its inputs, whether it trains, the settings that it needs, and what its text has then, or not (`-`).
HOLD: dict[str, tuple[str, str, bool, dict[str, object], list[str]]] = {
    "experts-by-rows": (experts(ROWS), BATCH, False, SIZES, ["-continue"]),
    "experts-added": (experts(ADDED), BATCH, True, SIZES, ["-continue"]),
    "experts-by-mask": (experts(MASK), BATCH, False, SIZES, ["-continue", "-any()"]),
    "dropped-by-torch": (net(DROPPED.format(draw="torch.rand(())")), GRADIENT, True, {}, ["torch.cond("]),
    "leaf": (LEAF, GRADIENT, True, {}, ["loss = torch.tensor(0.)"]),
    "new-name-in-while": (HEAD + LOOP.format(returned="x + 0"), "(torch.randn(6, 4) * 5,)", False, {}, ["while_loop"]),
    "int-overflow": (
        f"{HEAD}\n\ndef f(ids, x):\n    n = ids.max().item()\n    return x + (n * 2654435761 + 7) % 1000003\n",
        "(torch.tensor([5, 9, 2]), torch.randn(3))", False, {"capture_scalar_outputs": True}, [],
    ),
}  # fmt: skip
# What nothing ends, and what is said of it.
STAY: dict[str, tuple[str, str, bool, str]] = {
    "metrics": (
        net("        y = self.fc(x)\n        self.losses.append(y.mean().item())\n        return y"), BATCH, False,
        "`self.losses` gets a number of Python in each call",
    ),
    "state": (
        net("        y = self.fc(x)\n        self.average = 0.9 * self.average + 0.1 * y.mean().item()\n"
            "        return y / (self.average + 1)"), BATCH, False, "`self.average` is a number of Python",
    ),
    "dropped-by-python": (net(DROPPED.format(draw="random.random()")), BATCH, True, "not of Python"),
    "new-name-after-while": (HEAD + LOOP.format(returned="x, half"), "(torch.randn(6, 4) * 5,)", False, ""),
    "leaf-of-its-own": (LEAF, BATCH, True, "no output has a gradient"),
    "or-of-a-number": (
        f"{HEAD}\n\ndef f(x, mask):\n    largest = (x.abs() * mask).max().item() or 1.0\n    return x / largest\n",
        "(torch.randn(4, 5), torch.ones(4, 5))", False, "",
    ),
}  # fmt: skip


def searched(source: str, inputs: str, folder: Path, *, training: bool) -> Any:
    from fixing_in_process import search

    torch.manual_seed(0)
    return search(source, inputs, folder, training=training)


@pytest.mark.parametrize("name", mostly_slow(HOLD, every=len(HOLD)))
def test_an_idiom_ends(name: str, tmp_path: Path) -> None:
    source, inputs, training, settings, wanted = HOLD[name]
    found = searched(source, inputs, tmp_path, training=training)
    assert found.before.breaks > 0 and found.after.breaks == 0 and found.after.graphs == 1
    assert found.settings == settings
    for text in wanted:
        assert (text.removeprefix("-") in found.text) != text.startswith("-")
    added = [line for line in found.text.splitlines() if line not in source.splitlines()]
    assert len(added) <= 12 and not [line for line in added if "torch._" in line]


@pytest.mark.parametrize("name", mostly_slow(STAY, every=len(STAY)))
def test_what_is_not_the_same_stays_and_that_is_said(name: str, tmp_path: Path) -> None:
    source, inputs, training, said = STAY[name]
    found = searched(source, inputs, tmp_path, training=training)
    assert found.verified == [] and found.text == source and found.after.breaks == found.before.breaks > 0
    assert not said or any(said in each.reason for each in found.attempts), [each.reason for each in found.attempts]
