"""A forward that calls a forward that calls a forward; torch's text merges such frames."""

import time

import torch


class Inner(torch.nn.Module):
    def forward(self, x):
        time.sleep(0)
        return x + 1


class Middle(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x * 2)


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = Middle()

    def forward(self, x):
        return self.middle(x - 3)


torch.compile(Outer(), backend="eager")(torch.ones(4))
