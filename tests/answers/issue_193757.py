"""Binary cross entropy takes targets outside of 0 to 1."""

import torch
import torch.nn.functional as F


def build():
    def program(target):
        return F.binary_cross_entropy(torch.full_like(target, 0.9), target)

    return program, (torch.tensor([0.5, 2.5]),)
