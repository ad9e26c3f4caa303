"""A model that only says which device it wants."""

import torch

model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU()).eval()
example_inputs = (torch.randn(2, 3, 32, 32),)
