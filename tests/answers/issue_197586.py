"""The angle of a complex number loses the sign of zero."""

import torch


def build():
    def program(x):
        x[1] = complex(-0.0, 0.0)
        return torch.angle(x)

    return program, (torch.tensor([1 + 2j, 3 + 0j]),)
