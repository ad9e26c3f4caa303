"""A read of a value inside a loop: the whole frame runs in eager, for want of a place to resume."""

import torch


@torch.compile(backend="eager")
def total(x):
    found = 0.0
    for _ in range(3):
        x = x * 2
        found += x.sum().item()
    return found


total(torch.ones(4))
