"""A right shift by more than the width is left to the processor."""

import torch


def build():
    def program(x, bits):
        return torch.bitwise_right_shift(x, bits)

    return program, (torch.tensor([-1000, 1000], dtype=torch.int64), torch.tensor([64, 70]))
