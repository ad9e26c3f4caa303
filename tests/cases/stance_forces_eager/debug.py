"""Somebody left the stance on force_eager after a debugging session."""

import torch

torch.compiler.set_stance("force_eager")


@torch.compile(backend="eager")
def scale(x):
    print("scaling")
    return x * 2


print(scale(torch.ones(2)))
