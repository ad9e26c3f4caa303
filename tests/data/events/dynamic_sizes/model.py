"""Sizes: a change compiles again with a symbol, and the symbol's range is left by a batch of one."""

import torch


@torch.compile(backend="eager")
def grows(batch):
    return batch * 2


for rows in (4, 5, 1):
    grows(torch.ones(rows, 3))


@torch.compile(backend="eager", dynamic=True)
def parity(items):
    return items * 2 if items.shape[0] % 2 == 0 else items * 3


for rows in (4, 5):
    parity(torch.ones(rows, 3))
