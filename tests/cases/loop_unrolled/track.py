"""A filter that goes over a sequence in a Python loop, compiled whole, and the same with its step compiled alone."""

import torch
from torch import nn


class Track(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, width), nn.Linear(width, width)

    def update(self, seen, h):
        gain = torch.sigmoid(self.inner(seen))
        return gain * torch.tanh(self.outer(h)) + (1 - gain) * h

    def forward(self, track):
        h = track.new_zeros(track.shape[0], 4)
        for at in range(track.shape[1]):
            h = self.update(track[:, at], h)
        return h


if __name__ == "__main__":
    with torch.no_grad():
        print(torch.compile(Track(), backend="aot_eager")(torch.ones(2, 40, 3)).shape)
        track = Track()
        track.update = torch.compile(track.update, backend="aot_eager")
        print(track(torch.ones(2, 40, 3)).shape)
