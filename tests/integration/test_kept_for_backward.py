"""What a training step keeps, of a script with a loop of its own, by the program itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import dynalyze

ROWS, HIDDEN = 256, 2048
KEPT = ROWS * HIDDEN * 4
SCRIPT = f"""
import torch
from torch import nn


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, {HIDDEN}), nn.Linear({HIDDEN}, 8)

    def forward(self, x):
        h = torch.relu(self.first(x))
        h = torch.sin(h).exp() * torch.cos(h)  # cheap
        return self.second(h)


model = Chain()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones({ROWS}, 8)).square().mean().backward()
    optimizer.step()
"""


CHAIN = "h = torch.sin(h).exp() * torch.cos(h)"
IN_EAGER = {"h = torch.relu(self.first(x))": KEPT, CHAIN: 3 * KEPT}
"""relu, exp and cos keep what they gave, and the second layer what it gets, the product."""


def measured(folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The memory of a step, its lines by their code, and what the terminal says."""
    (folder / "fit.py").write_text(SCRIPT)
    quick = ["--no-memory", "--no-accuracy", "--pairs", "1", "--seconds", "0.2"]
    ended = dynalyze("bench", "fit.py", "--prices", *options, *quick, "--json", "bench.json", cwd=folder)
    assert ended.status == 0, ended.stderr
    eager, compiled = json.loads((folder / "bench.json").read_text())["measurements"]
    assert eager["step_memory"] is None
    found = compiled["step_memory"]
    assert found["problem"] == ""
    code = SCRIPT.splitlines()
    lines = {code[each["place"]["line"] - 1].split("#")[0].strip(): each for each in found["lines"]}
    assert {text: each["eager_bytes"] for text, each in lines.items()} == IN_EAGER
    assert found["eager_kept"] == 4 * KEPT <= found["eager_peak"]
    return found, lines, " ".join(ended.stdout.split())


@pytest.mark.slow
def test_a_chain_of_cheap_operations_is_computed_again_and_not_kept(tmp_path: Path) -> None:
    found, lines, said = measured(tmp_path)
    # The first layer's result and the second one's input are enough: all between them is made of these.
    assert found["compiled_kept"] == 2 * KEPT <= found["compiled_peak"] < found["eager_peak"]
    assert [each["compiled_bytes"] for each in map(lines.get, IN_EAGER) if each] == [KEPT, KEPT]
    assert {"aten.sin", "aten.exp", "aten.cos"} <= set(lines[CHAIN]["recomputed"])
    assert "a training step keeps 4.19 MB for backward, eager 8.39 MB; its peak is " in said, said
