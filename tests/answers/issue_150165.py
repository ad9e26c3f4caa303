"""Bilinear interpolation and an inverse, which magnifies rounding."""

import torch
import torch.nn.functional as F


def build():
    def program(x):
        return torch.inverse(F.interpolate(x, size=(6, 6), mode="bilinear", align_corners=True) + torch.eye(6))

    return program, (torch.cos(torch.arange(9.0)).reshape(1, 1, 3, 3),)
