"""Floor division of floats rounds the quotient first: 1.0 // 0.1 is 10."""

import torch


def build():
    def program(x, y):
        return x // y

    return program, (torch.tensor([1.0, 0.7, 6.0]), torch.tensor([0.1, 0.1, 0.2]))
