"""Trilinear interpolation of one voxel and of a layer's result gives other means."""

import torch
import torch.nn.functional as F


def build():
    def program(x, weight):
        wide = x @ weight
        grown = F.interpolate(wide, size=[1, 7, 6], mode="trilinear")
        return grown.mean(0), torch.gt(wide, 0)

    voxels = torch.linspace(-1, 1, 5).reshape(5, 1, 1, 1, 1)
    return program, (voxels, torch.linspace(-2, 2, 6).reshape(1, 6))
