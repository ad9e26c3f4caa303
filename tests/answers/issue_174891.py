"""A column of complex ones is added as if it had no imaginary parts."""

import torch


def build():
    def program(x):
        return x + torch.ones(3, 1, dtype=torch.complex64)

    return program, (torch.full((3, 2), 2.0 - 1.0j, dtype=torch.complex64),)
