import math

import torch


def sinusoids(length, width):
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
