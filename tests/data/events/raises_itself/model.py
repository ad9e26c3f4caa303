"""An exception of the program's own is no graph break; the print before it is one."""

import torch


@torch.compile(backend="eager")
def check(x):
    y = x * 2
    print("checking")
    if y.shape[0] > 3:
        raise ValueError("too long")
    return y


try:
    check(torch.ones(4))
except ValueError as error:
    print(error)
