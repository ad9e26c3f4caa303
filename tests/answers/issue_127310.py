"""Random integers below zero are shifted as if they had no sign."""

import torch


def build():
    def program(x):
        return torch.randint(-4, -1, (3,)) >> 1, x + 1

    return program, (torch.zeros(1),)
