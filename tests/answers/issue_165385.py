"""An assignment that fails, and is caught, fails only after the graph."""

import torch


class Plain:
    pass


def build():
    def program(x, plain):
        try:
            plain.__weakref__ = None
        except AttributeError:
            return x + 1
        return x - 1

    return program, (torch.ones(2), Plain())
