"""iter() of a reversed iterator that was begun starts anew."""

import torch


def build():
    def program(x):
        backwards = reversed([2, 4, 8])
        first = next(backwards)
        rest = list(iter(backwards))
        return x * first + len(rest)

    return program, (torch.ones(2),)
