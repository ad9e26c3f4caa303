"""An in-place change through a view with overlaps is applied once instead of for each."""

import torch


def build():
    def program(x):
        windows = torch.as_strided(x, (3, 2), (1, 1))
        windows.mul_(2)
        return x

    return program, (torch.arange(1.0, 5.0),)
