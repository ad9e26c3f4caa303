"""A print three calls deep; torch reports it once for every frame that inlined it."""

import torch


def announce(x):
    print("mean of a batch")
    return x + 1


def scale(x):
    return announce(x * 2)


@torch.compile(backend="eager")
def forward(x):
    return scale(x) - 3


forward(torch.ones(4))
