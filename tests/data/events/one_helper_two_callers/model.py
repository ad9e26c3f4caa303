"""Two models share a helper that breaks: one break, two lines that lead to it."""

import torch


def spread(x):
    return x / x.std().item()


@torch.compile(backend="eager")
def first(x):
    y = spread(x + 1)
    return y * 2


@torch.compile(backend="eager")
def second(x):
    y = spread(x - 1)
    return y * 3


first(torch.arange(4.0))
second(torch.arange(4.0))
