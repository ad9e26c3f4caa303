"""Pairs of features are turned by angles, as complex numbers; Inductor has no code for these."""

import torch
from torch import nn


class Turn(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        angles = torch.arange(width // 2) / width
        self.register_buffer("phases", torch.polar(torch.ones(width // 2), angles))

    def forward(self, h):
        pairs = torch.view_as_complex(h.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.phases).flatten(-2)


if __name__ == "__main__":
    with torch.no_grad():
        print(torch.compile(Turn())(torch.ones(3, 8)).shape)
