"""any of uint8 gives bool, where eager gives uint8."""

import torch


def build():
    def program(x):
        return torch.any(x, 1) * 150 + 120

    return program, (torch.tensor([[0, 3, 0], [0, 0, 0]], dtype=torch.uint8),)
