"""Stores state, then reports from where Dynamo cannot resume: what came before stays compiled, the rest is eager."""

import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.busy = False

    def forward(self, x):
        h = self.fc(x).relu()
        self.busy = True
        try:
            print("tracking", h.shape)
            h = h * 2
        finally:
            self.busy = False
        return h.sum(-1)


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        total = x.sum(-1)
        self.seen = self.seen + 1
        for part in x.unbind(0):
            total = total + part.sum()
            print("part", part.ndim)
        return total


if __name__ == "__main__":
    tracker, meter = Tracker().eval(), Meter()
    tracker.compile(backend="eager")
    meter.compile(backend="eager")
    with torch.no_grad():
        print(tracker(torch.ones(2, 4)), meter(torch.ones(2, 4)))
