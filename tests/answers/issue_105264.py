"""A sum of uint8 that overflows does not wrap before it is widened."""

import torch


def build():
    def program(x):
        return (x + x).to(torch.int16)

    return program, (torch.tensor(200, dtype=torch.uint8),)
