"""A text made from a size holds the name of a symbol."""

import torch


def build():
    def program(x):
        return f"{x.size(0)} rows", x * 2

    return program, (torch.ones(5, 2),)
