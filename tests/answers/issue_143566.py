"""A shift by the width of the type is left to the processor."""

import torch


def build():
    def program(x, bits):
        return torch.bitwise_left_shift(x, bits)

    return program, (torch.tensor([7, 1000]), torch.tensor([64, 65]))
