"""Interpolation of an image without pixels reads other memory."""

import torch
import torch.nn.functional as F


def build():
    def program(image):
        return F.interpolate(image, size=(2, 3), mode="nearest")

    return program, (torch.zeros(1, 1, 0, 3),)
