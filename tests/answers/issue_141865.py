"""A linear layer in float takes half."""

import torch


def build():
    return torch.nn.Linear(1, 1), (torch.ones(1, 1, dtype=torch.half),)
