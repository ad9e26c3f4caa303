"""A forward that looks at the process's environment and folder and hashes a key."""

import hashlib
import os

import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.key = ""

    def forward(self, x):
        h = self.fc(x)
        if os.getenv("CACHED_SCALE"):
            h = h * 2
        folder = os.getcwd()
        h = h + len(folder) * 0
        self.key = hashlib.sha256(b"cached").hexdigest()
        return h.relu()


if __name__ == "__main__":
    cached = torch.compile(Cached().eval(), backend="eager")
    with torch.no_grad():
        print(cached(torch.ones(1, 3)).shape)
