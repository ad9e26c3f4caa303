"""Submodules compiled in the place of a model that breaks, found and verified: what torch compiles, and what it
costs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9), reason="before 2.9 torch cannot refuse breaks alone"
)

PROGRAM = """
import threading
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return x + self.dropout(self.linear(x).relu().sigmoid() * 2)


class Locked(Block):
    def forward(self, x):
        x = super().forward(x)
        with threading.Lock():
            return x + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Locked()
        self.blocks = torch.nn.ModuleList([Block(), Block(), Block(), Block()])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
f = Net()
"""
TOP = PROGRAM.replace("x = self.first(x)", "with threading.Lock():\n            x = x * 2").replace("Locked()", "None")
STATE = PROGRAM.replace("return x + self.dropout(", "self.calls = x.shape[0]\n        return x + self.dropout(")
BLOCKS = "for block in model.blocks:\n    block.compile()"


@pytest.mark.parametrize("case", mostly_slow(["in training", "in inference", "breaks in the top alone", "with state"]))
def test_what_has_no_break_is_compiled_in_the_place_of_the_whole(case: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    program = {"breaks in the top alone": TOP, "with state": STATE}.get(case, PROGRAM)
    found = search(program, "(torch.randn(2, 4),)", tmp_path, training=case == "in training")
    (fix,) = [each for each in found.attempts if each.proposed is not None and each.proposed.instead.regions]
    if (
        case == "breaks in the top alone"
    ):  # A break in a `with`: the whole ran the blocks' operators in graphs, no more.
        assert fix.status == "verified" and found.verified
    else:  # They hold fewer of the operators than the graphs of the whole did: that is for people to choose.
        assert (fix.status, found.verified) == ("suggested", []) and "in eager" in fix.reason
    assert fix.proposed is not None and found.before.breaks > 0 and fix.proposed.compiled.counts.breaks == 0
    instead = fix.proposed.instead
    assert (instead.regions, instead.lines) == (
        {"Net": ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]}, BLOCKS,
    )  # fmt: skip
    assert instead.operators > 0.5
    assert fix.evidence.outputs == "bitwise" and fix.evidence.gradients
    assert 1 <= fix.proposed.compiled.counts.graphs <= 4
