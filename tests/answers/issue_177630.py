"""A batched product of half and float is computed, where eager refuses it."""

import torch


def build():
    def program(left, right):
        return torch.matmul(left, right)

    return program, (torch.ones(2, 3, 4, dtype=torch.half), torch.ones(2, 4, 5))
