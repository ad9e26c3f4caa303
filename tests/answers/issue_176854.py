"""A tensor that was detached in place still says that it wants a gradient."""

import torch


def build():
    def program(x):
        y = x.exp()
        y.detach_()
        return y.requires_grad, x * y

    return program, (torch.ones(3, requires_grad=True),)
