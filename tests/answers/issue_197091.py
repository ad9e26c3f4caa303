"""ldexp of half and float gives half, where types are promoted to float."""

import torch


def build():
    def program(mantissa, exponent):
        return torch.ldexp(mantissa, exponent)

    return program, (torch.ones(4, dtype=torch.half), torch.arange(4.0))
