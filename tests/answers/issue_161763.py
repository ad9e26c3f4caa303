"""A uint8 constant is negated without wrapping where a float is added."""

import torch


def build():
    def program(x):
        step = torch.tensor(9, dtype=torch.uint8)
        return torch.neg(step) + x

    return program, (torch.tensor([0.5, -1.0]),)
