"""An object that calls itself of another class is taken for one of its own."""

import torch


class Quiet:
    @property
    def __class__(self):
        return int


def build():
    def program(x, thing):
        return x + 1 if isinstance(thing, int) else x - 1

    return program, (torch.ones(2), Quiet())
