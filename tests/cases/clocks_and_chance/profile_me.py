"""A layer that measures itself and flips a coin with Python's own random generator."""

import random
import time

import torch
from torch import nn


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.spent = 0.0

    def forward(self, x):
        begin = time.perf_counter()
        y = self.fc(x).relu()
        self.spent = time.time()
        return y, begin


@torch.compile(backend="eager")
def drop(x):
    x = x * 2
    generator = random.Random(0)
    if generator.random() < 0.5:
        x = x + 1
    return x.sin()


@torch.compile(backend="eager")
def jitter(x):
    x = x - 1
    x = x * random.random()
    return x.cos()


if __name__ == "__main__":
    timed = torch.compile(Timed().eval(), backend="eager")
    with torch.no_grad():
        y, _ = timed(torch.ones(1, 4))
    print(y.shape, drop(torch.ones(3)), jitter(torch.ones(2)).shape)
