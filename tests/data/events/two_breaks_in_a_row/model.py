"""Two breaks in one function, the second one inside the resumed half; then the same again for another rank."""

import torch


@torch.compile(backend="eager")
def report(x):
    y = x * 2
    print("one")
    y = y + 1
    print("two")
    return y - 3


report(torch.ones(4))
report(torch.ones(4, 4))
