"""A sum of int32 that overflows does not wrap before it is widened."""

import torch


def build():
    def program(x):
        return (x + x).long()

    return program, (torch.tensor([2**31 - 1, 5], dtype=torch.int32),)
