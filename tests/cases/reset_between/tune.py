"""Compiles, forgets everything with reset(), and compiles again: compile ids start anew, the break stays one."""

import torch
import torch._dynamo


def smooth(x):
    y = x.cumsum(0)
    print("smoothing", len(x))
    return y / len(x)


def sharpen(x):
    y = x - x.mean()
    return y * y.sum().item()


if __name__ == "__main__":
    torch.compile(smooth, backend="eager")(torch.ones(4))
    torch._dynamo.reset()
    torch.compile(sharpen, backend="eager")(torch.ones(4))
    torch._dynamo.reset()
    torch.compile(smooth, backend="eager")(torch.ones(4))
