"""A stack of layers that reports each layer from the loop itself."""

import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(depth))

    def forward(self, x):
        x = x - x.mean()
        for number, layer in enumerate(self.layers):
            x = layer(x).relu()
            print("layer", number)
        return x.sum(-1)


if __name__ == "__main__":
    stack = torch.compile(Stack().eval(), backend="eager")
    with torch.no_grad():
        stack(torch.randn(2, 6))
        stack(torch.randn(2, 6))
