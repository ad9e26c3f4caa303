"""Only definitions: keyword inputs, some of them no tensors."""

import torch
from torch import nn


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, *, tokens, mode="mean", verbose=False):
        hidden = self.fc(tokens)
        if verbose:
            print("pooling by", mode)
        return hidden.mean(1) if mode == "mean" else hidden.amax(1)


model = Pooler()
example_inputs = {"tokens": torch.ones(2, 3, 5), "mode": "max", "verbose": True}
