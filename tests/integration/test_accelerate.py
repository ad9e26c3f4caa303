"""Regional compilation through Hugging Face Accelerate, as the configuration `accelerate` does it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.protocol import Configuration

pytest.importorskip("accelerate")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.layer(x))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_accelerate_compiles_the_repeated_blocks_once(backend: str) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model, x = Network().eval(), torch.randn(4, 8)
    with torch.no_grad():
        expected = model(x)
        target = configured(model, Configuration("accelerate", backend=backend, region="accelerate"))
        torch.testing.assert_close(target(x), expected)
    # One graph serves the three blocks; the head is the other. Compiled as a whole there would be a single one.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
