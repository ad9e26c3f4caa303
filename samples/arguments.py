"""A program with options of its own. What follows -- is for it, not for dynalyze.

Try:

    dynalyze explain samples/arguments.py -- --batch 8 --width 64 --steps 3
"""

import argparse

import torch
from torch import nn


class Smoother(nn.Module):
    """Repeats one layer; every number of steps is another program to the compiler."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = torch.tanh(self.layer(x))
        return x


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()

    smoother = torch.compile(Smoother(options.width), backend="eager")
    for steps in range(1, options.steps + 1):
        y = smoother(torch.randn(options.batch, options.width), steps)
    print("smoothed", tuple(y.shape), "in", options.steps, "steps")


if __name__ == "__main__":
    main()
