"""Branches of torch.cond that print and branch again: torch raises, though it was not asked for one graph."""

import torch


def shifted(x):
    print("shifted")
    return x + 1


def scaled(x):
    if x.max() > 3:
        x = x / 2
    return x


def choose(x, first, second):
    return torch.cond(x.sum() > 0, first, second, (x,))


for first, second in ((shifted, torch.sin), (torch.sin, scaled)):
    try:
        torch.compile(choose, backend="eager")(torch.ones(4), first, second)
    except torch._dynamo.exc.UncapturedHigherOrderOpError:
        torch._dynamo.reset()
