"""A module file as it stands in a library: classes alone."""

from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x):
        return self.query(x).softmax(-1)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)

    def forward(self, x):
        return self.up(x).relu()
