"""Only definitions: a list of inputs, of which the second takes the way that breaks."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, memory=None):
        y = self.fc(x)
        if memory is not None:
            torch._dynamo.graph_break()
            y = y + memory
        return y.relu()


model = Decoder().eval()
example_inputs = [(torch.zeros(1, 4),), {"x": torch.zeros(1, 4), "memory": torch.ones(1, 4)}]
