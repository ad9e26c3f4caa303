"""Sums of products of int32 do not wrap before they are summed up as int64."""

import torch


def build():
    def program(a, b, c, d):
        first = a @ b + a @ c
        second = d @ b + d @ c
        return (first + second).sum(dim=1)

    big = torch.full((2, 2), 2**30 - 1, dtype=torch.int32)
    one = torch.eye(2, dtype=torch.int32)
    return program, (one, big, big + 5, one * 3)
