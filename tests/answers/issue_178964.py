"""max of a sum with a transposed tensor gives the index 0 everywhere."""

import torch


def build():
    def program(a, b):
        return (a.t() + b).max(dim=1)

    numbers = torch.tensor([(n * 37) % 101 for n in range(64)], dtype=torch.float).reshape(8, 8)
    return program, (numbers, numbers.flip(1))
