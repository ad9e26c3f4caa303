"""Calls that leave torch: a NumPy calendar function and deep copies of settings and of a tensor."""

import copy

import numpy as np
import torch


class Settings:
    def __init__(self):
        self.scales = {"close": 2.0, "open": 0.5}


@torch.compile(backend="eager")
def weekday_feature(prices):
    scaled = prices * 2
    workdays = np.busday_count("2024-01-01", "2024-02-01")
    return scaled / int(workdays)


@torch.compile(backend="eager")
def with_settings(prices, settings):
    scaled = prices + 1
    mine = copy.deepcopy(settings)
    return scaled * mine.scales["close"]


@torch.compile(backend="eager")
def against_a_copy(prices):
    scaled = prices - 1
    before = copy.deepcopy(scaled)
    return scaled.square() + before


if __name__ == "__main__":
    prices = torch.tensor([1.0, 2.0])
    print(weekday_feature(prices), with_settings(prices, Settings()), against_a_copy(prices))
