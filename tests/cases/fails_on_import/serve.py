"""A settings module of the program raises while it is imported."""

import torch

from settings import WIDTH


@torch.compile(backend="eager")
def scale(x):
    return x * WIDTH


print(scale(torch.ones(2)))
