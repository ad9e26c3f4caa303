"""A product that is transposed, added and transposed back is read in the wrong layout."""

import torch


def build():
    def program(x, a, b):
        mixed = ((x @ a).t() + (x @ b).t()).t()
        return torch.flip(torch.repeat_interleave(torch.flatten(mixed), repeats=2), dims=[0])

    numbers = torch.tensor([-3.0, -1.0, 1.0, 2.0, 4.0]).repeat(10)[:48]
    return program, (numbers.reshape(8, 6), numbers.reshape(6, 8), numbers.flip(0).reshape(6, 8))
