"""Compiles, then ends with an exit status of its own choosing."""

import sys

import torch


@torch.compile(backend="eager")
def drift(x):
    y = x - 1
    print("drift of", len(x))
    return y.abs()


if __name__ == "__main__":
    worst = drift(torch.tensor([4.0, 2.0])).max()
    sys.exit(3 if worst > 2 else 0)
