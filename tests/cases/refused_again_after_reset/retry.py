"""Tries a model again after reset(), first as it is, then inside another function: the same print is refused each time."""

import torch
import torch._dynamo


def forward(x):
    y = x * 2
    print("forward", y.shape)
    return y + 1


def wrapped(x):
    return forward(x) - 1


if __name__ == "__main__":
    torch.compile(forward, backend="eager")(torch.ones(3))
    for attempt in (forward, forward, wrapped):
        torch._dynamo.reset()
        try:
            torch.compile(attempt, backend="eager", fullgraph=True)(torch.ones(3))
        except torch._dynamo.exc.Unsupported:
            print("refused")
