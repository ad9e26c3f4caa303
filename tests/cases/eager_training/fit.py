"""Eager training in a function; model, loss and optimiser as in any tutorial."""

import argparse

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        y = self.layers(x)
        scale = x.abs().max().item()
        return y.squeeze(-1) / (1 + scale)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--width", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss = Regressor(options.width), nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(options.steps):
        x = torch.randn(5, 3)
        optimizer.zero_grad()
        loss(model(x), x.sum(-1)).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
