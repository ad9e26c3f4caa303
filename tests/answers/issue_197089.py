"""The deviation of tiny numbers is zero, that of huge ones infinite."""

import torch


def build():
    def program(x):
        return torch.std(x, dim=1)

    return program, (torch.tensor([[1e30, 2e30, 4e30], [1e-30, 2e-30, 5e-30]]),)
