"""The negative of uint8 numbers that are put together and summed does not wrap."""

import torch


def build():
    def program(x):
        below = -x.abs()
        return torch.cat([below, below, below]).sum()

    return program, (torch.tensor([100, 250], dtype=torch.uint8),)
