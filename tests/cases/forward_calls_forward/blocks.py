"""Every frame of the stack is called `forward`: a model, its block, and the norm in the block."""

import torch
from torch import nn


class LoudNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x / x.std(-1, keepdim=True)
        print("norm of", y.ndim, "dimensions")
        return y * self.weight


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = LoudNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x * 2)
        return self.fc(h)


class Net(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.block = Block(width)

    def forward(self, x):
        x = x + 1
        return self.block(x) + x


if __name__ == "__main__":
    net = Net().eval()
    net.compile(backend="eager")
    with torch.no_grad():
        net(torch.randn(2, 5))
