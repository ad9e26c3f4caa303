"""Has a `Net`, but the case asks for another name."""

import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x)
