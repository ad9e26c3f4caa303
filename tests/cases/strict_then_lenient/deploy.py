"""Asks for one graph first; when that is refused, compiles the same model with breaks allowed."""

import torch
import torch._dynamo
from torch import nn


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)
        self.expert = nn.Linear(4, 4)

    def forward(self, x):
        gate = self.score(x).sigmoid().mean()
        if gate > 2:
            x = self.expert(x)
        return x * gate


def prepare(model, example):
    for fullgraph in (True, False):
        candidate = torch.compile(model, backend="eager", fullgraph=fullgraph)
        try:
            candidate(example)
            return candidate
        except torch._dynamo.exc.Unsupported:
            torch._dynamo.reset()
    raise SystemExit("cannot compile")


if __name__ == "__main__":
    with torch.no_grad():
        model = prepare(Router().eval(), torch.ones(2, 4))
        print(model(torch.ones(2, 4)).shape)
