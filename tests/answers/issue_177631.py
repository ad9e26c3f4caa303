"""A tensor padded by nothing is sorted after a later change of the original."""

import torch
import torch.nn.functional as F


def build():
    def program(x):
        padded = F.pad(x, (0, 0))
        x[1] = 7
        return torch.sort(padded, dim=0)[0]

    return program, (torch.tensor([[3.0, 1.0], [2.0, 5.0]]),)
