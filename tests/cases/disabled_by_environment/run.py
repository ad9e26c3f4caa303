"""Turns Dynamo off for itself before it imports torch."""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch
from torch import nn

net = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend="eager")
print(net(torch.ones(1, 2)).shape)
