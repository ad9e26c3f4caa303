"""The same break before and after torch._dynamo.reset(): one fact, in two epochs."""

import torch


@torch.compile(backend="eager")
def shout(x):
    y = x * 2
    print("loud")
    return y + 1


shout(torch.ones(4))
torch._dynamo.reset()
shout(torch.ones(4))
