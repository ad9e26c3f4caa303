"""A recommender that breaks its graph in most of the ways there are.

Every marked line stops the compiler. What becomes of the function around it differs: it is split in two, its rest
runs in eager, all of it runs in eager, or the compile is refused. One line also makes it compile again.

Try:

    dynalyze explain samples/breaks.py
"""

import os
import warnings

import torch
from torch import nn


class Tower(nn.Module):
    """Encodes a visitor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, visitor: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            visitor = torch.relu(layer(visitor))
            print("encoded", tuple(visitor.shape))  # break: GB0059 eager
        return visitor


class Recommender(nn.Module):
    """Scores all items for a visitor and keeps the good ones."""

    def __init__(self, width: int = 16, items: int = 32) -> None:
        super().__init__()
        self.tower = Tower(width)
        self.items = nn.Embedding(items, width)
        self.served_by = 0

    def forward(self, visitor: torch.Tensor) -> torch.Tensor:
        scores = self.items.weight @ self.tower(visitor)
        if scores.max() > 0.1:  # break: GB0170 split
            scores = scores / 2
        good = scores[scores > 0]  # break: GB0036 split
        if visitor.ndim == 1:
            warnings.warn("one visitor at a time is slow")  # break: GB0007 split
        limit = good.mean().item()  # break: GB0124 split  # recompile: value
        return self.publish(good.clamp(max=limit))

    def publish(self, scores: torch.Tensor) -> torch.Tensor:
        chances = (scores * 10).softmax(0)
        try:
            self.served_by = os.getpid()  # break: GB0007 partly_eager
            return chances * 100
        except OSError:
            return chances


def best(scores: torch.Tensor) -> torch.Tensor:
    """Compiled with fullgraph=True: the compiler has to refuse what would break the graph."""
    print("best of", len(scores))  # break: GB0059 error
    return scores.argmax()


def main() -> None:
    torch.manual_seed(0)
    model = torch.compile(Recommender(), backend="eager")
    for _ in range(2):
        scores = model(torch.randn(16))
    try:
        torch.compile(best, backend="eager", fullgraph=True)(scores)
    except RuntimeError as refusal:
        print("refused:", str(refusal).splitlines()[0])


if __name__ == "__main__":
    main()
