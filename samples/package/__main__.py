"""Runs with `python -m package`: one call of the compiled model."""

import torch

from .model import build

if __name__ == "__main__":
    model, inputs = build()
    print("output", tuple(torch.compile(model, backend="eager")(*inputs).shape))
