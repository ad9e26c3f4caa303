"""The break is in a library that the project keeps in its own folder of third-party packages."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "third_party" / "site-packages"))

import torch
from gridmath import laplacian
from torch import nn


class Heat(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.1))

    def forward(self, plate):
        return plate + self.rate * laplacian(plate)


if __name__ == "__main__":
    step = torch.compile(Heat(), backend="eager")
    print(step(torch.rand(4, 4)).shape)
