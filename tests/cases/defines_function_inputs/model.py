"""Only definitions: a function makes the inputs, through a helper module beside the file."""

import torch
from samples import waves
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.smooth = nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, wave):
        smooth = self.smooth(wave)
        residual = wave - smooth
        if residual.abs().max() > 100:
            smooth = smooth.clamp(-1, 1)
        return smooth


model = Denoiser().eval()


def example_inputs():
    return (waves(2, 16),)
