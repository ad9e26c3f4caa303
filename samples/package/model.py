"""The model, and a factory that returns it with its inputs."""

import torch
from torch import nn

from .layers import TopUnits


class Model(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Linear(width, width)
        self.top = TopUnits()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.top(torch.relu(self.body(x)))


def build() -> tuple[Model, tuple[torch.Tensor]]:
    """What `package.model:build` names: no arguments, returns (model, inputs)."""
    return Model(), (torch.randn(2, 8),)
