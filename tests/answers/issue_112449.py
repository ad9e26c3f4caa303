"""torch.normal forgets the type that was asked for."""

import torch


def build():
    def program(x):
        return torch.normal(0.0, 1.0, (3,), dtype=torch.float64) + x

    return program, (torch.zeros(3),)
