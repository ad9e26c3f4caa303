"""Sizes that vary under CUDA graphs."""

import torch

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda().eval()
fast = torch.compile(net, mode="reduce-overhead")
with torch.no_grad():
    for rows in (8, 16, 24, 32, 40, 48):
        fast(torch.randn(rows, 64, device="cuda"))
