"""A recommender whose graph breaks in most of the ways that graphs break.

Eight lines stop the compiler; each says in a comment which break it is and what becomes of its function: it is
split in two, its rest runs in eager, the whole of it runs in eager, or the compile is refused.

    dynalyze explain samples/breaks.py
"""

import logging
import os
import time

import torch
from torch import nn

log = logging.getLogger("recommender")


class Tower(nn.Module):
    """Encodes a visitor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, visitor: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            visitor = torch.relu(layer(visitor))
            print("layer done", visitor.shape)  # break: GB0059 eager
        return visitor


class Recommender(nn.Module):
    """Scores items for a visitor and keeps the good ones."""

    def __init__(self, width: int = 16, items: int = 32) -> None:
        super().__init__()
        self.tower = Tower(width)
        self.items = nn.Embedding(items, width)
        self.busy = False

    def forward(self, visitor: torch.Tensor) -> torch.Tensor:
        started = time.perf_counter()  # break: GB0007 split
        scores = self.items.weight @ self.tower(visitor)
        if scores.max() > 0.5:  # break: GB0170 split
            scores = scores / scores.max()
        good = scores[scores > scores.median()]  # break: GB0036 split
        log.warning("best %.2f", good.max().item())  # break: GB0124 split
        return self.published(good) * (time.perf_counter() > started)

    def published(self, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.softmax(0)
        self.busy = True
        try:
            log.debug("worker %d", os.getpid())  # break: GB0007 partly_eager
            scores = scores + 1e-6
        finally:
            self.busy = False
        return scores


def strict_top(scores: torch.Tensor) -> torch.Tensor:
    """Compiled with fullgraph=True below: the compiler may not break the graph, so it refuses."""
    best = scores.max()
    print("best of", len(scores))  # break: GB0059 error
    return scores == best


def main() -> None:
    torch.manual_seed(0)
    model = torch.compile(Recommender(), backend="eager")
    for _ in range(2):
        scores = model(torch.randn(16))
    try:
        torch.compile(strict_top, backend="eager", fullgraph=True)(scores)
    except RuntimeError as refusal:
        print("refused:", str(refusal).splitlines()[0])


if __name__ == "__main__":
    main()
