"""var_mean sums in another way than eager, further from the truth."""

import torch


def build():
    def program(x):
        return torch.var_mean(x, dim=-1)

    return program, (torch.linspace(0, 1, 4096).reshape(2, 2048) + 1e4,)
