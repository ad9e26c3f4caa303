"""Scales a price by two scalars that it reads back from the device on one and the same line."""

import torch


@torch.compile(backend="eager")
def normalise(prices, volumes):
    low, high = prices.min(), prices.max()
    span = high.item() - low.item()
    return (prices - low) / (span + 1e-6) * volumes


prices = torch.tensor([3.0, 7.5, 4.25, 6.0])
print(normalise(prices, torch.ones(4)))
