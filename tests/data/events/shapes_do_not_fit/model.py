"""A wrong program: the shapes do not fit, in eager neither."""

import torch


@torch.compile(backend="eager")
def multiply(x, y):
    return x @ y


try:
    multiply(torch.ones(2, 3), torch.ones(4, 5))
except Exception as error:
    print(type(error).__name__)
