"""A half constant that rounds to zero stays above it, so that NaN is gone."""

import torch


def build():
    def program(x):
        return x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-9)

    return program, (torch.full((2, 4), 1e-7, dtype=torch.half),)
