"""The index of the least of bools is wrong."""

import torch


def build():
    def program(flags):
        return flags.min(0)

    return program, (torch.tensor([[n % 3 != r % 3 for n in range(32)] for r in range(5)]),)
