"""A view and its base come out of a graph as one object, so that resizing the view resizes the base."""

import torch


def build():
    def program(x):
        base = x * 2
        flat = base.view(-1)
        flat.resize_(6)
        return base - 1

    return program, (torch.ones(2),)
