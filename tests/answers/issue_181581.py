"""A gradient that was taken with create_graph cannot be differentiated."""

import torch


def build():
    def program(x):
        return (x**4).sum()

    return program, (torch.ones(2, requires_grad=True),)


def use(program, compiled):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    return gradient.requires_grad
