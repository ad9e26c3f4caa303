"""Two threads, each with a compiled model of its own, at work at the same time."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Left(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        h = self.fc(x)
        print("left", h.shape)
        return h.tanh()


class Right(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x):
        h = self.fc(x)
        level = h.norm().item()
        return h / (level + 1)


def work(module, width):
    compiled = torch.compile(module, backend="eager")
    with torch.no_grad():
        return [compiled(torch.randn(2, width)) for _ in range(3)][-1]


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(work, Left(), 3), pool.submit(work, Right(), 5)]
        print([job.result().shape for job in jobs])
