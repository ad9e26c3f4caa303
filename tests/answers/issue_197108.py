"""The mean that var_mean gives of nothing is 0, not NaN."""

import torch


def build():
    def program(x):
        return torch.var_mean(x)

    return program, (torch.zeros(0, 3),)
