"""A hook on a value inside of the graph is not called."""

import torch


def build():
    def program(x):
        inner = x.sin()
        inner.register_hook(lambda grad: grad * 5)
        return (inner * x).sum()

    return program, (torch.tensor([0.5, 1.0], requires_grad=True),)
