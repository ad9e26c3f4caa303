"""A default dtype that changes between the calls is not guarded."""

import torch


def build():
    def program():
        return torch.zeros(2), torch.tensor([0.5])

    return program, ()


def use(program, compiled):
    first = compiled()
    torch.set_default_dtype(torch.float64)
    try:
        return first, compiled()
    finally:
        torch.set_default_dtype(torch.float32)
