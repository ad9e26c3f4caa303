"""Wraps its model for later and ends before it calls it."""

import torch
from torch import nn

model = torch.compile(nn.Linear(4, 4), backend="eager")
print("ready:", sum(p.numel() for p in model.parameters()), "parameters")
