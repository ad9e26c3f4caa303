"""A view of a permutation that names one row many times is taken for a permutation."""

import torch


def build():
    def program(x):
        rows = torch.as_strided(torch.randperm(6), (6,), (0,))
        x.index_put_((rows,), x[rows] + 2)
        return x

    return program, (torch.zeros(6),)
