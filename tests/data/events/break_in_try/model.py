"""A print inside a try block."""

import torch


@torch.compile(backend="eager")
def careful(x):
    y = x * 2
    try:
        print("trying")
        y = y + 1
    except ValueError:
        y = y - 1
    return y * 3


careful(torch.ones(4))
