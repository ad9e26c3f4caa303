"""Leaves with os._exit, as some launchers do, so that nothing at exit can run."""

import os
import sys

import torch


@torch.compile(backend="eager")
def weigh(x):
    y = x.square()
    total = y.sum().item()
    return y / total


if __name__ == "__main__":
    print(weigh(torch.ones(4)))
    sys.stdout.flush()
    os._exit(0)
