"""A compiled model that refuses its second batch with an exception of its own."""

import torch
from torch import nn


class Checked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        h = self.fc(x)
        if x.shape[0] > 3:
            raise ValueError("batch too large")
        return h.relu()


if __name__ == "__main__":
    checked = torch.compile(Checked().eval(), backend="eager")
    for size in (2, 5):
        print(checked(torch.ones(size, 4)).shape)
