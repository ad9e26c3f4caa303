"""Layers whose sizes do not fit: the program is wrong, compiled or not."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.weight = nn.Parameter(torch.zeros(6, 2))

    def forward(self, x):
        h = self.up(x).relu()
        return h @ self.weight


if __name__ == "__main__":
    mlp = torch.compile(Mlp(), backend="eager")
    mlp(torch.randn(3, 4))
