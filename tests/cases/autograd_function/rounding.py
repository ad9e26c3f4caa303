"""A straight-through estimator whose forward prints how much it rounded."""

import torch
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rounded = x.round()
        print("rounding", x.numel())
        return rounded

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        return Round.apply(h).mean()


if __name__ == "__main__":
    quantised = torch.compile(Quantised(), backend="aot_eager")
    for _ in range(2):
        quantised(torch.randn(3, 4)).backward()
