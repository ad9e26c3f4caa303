"""resize of a view that repeats one number reads on in memory."""

import torch


def build():
    def program(x):
        repeated = torch.as_strided(x, (40,), (0,))
        return torch.ops.aten.resize(repeated, (12,))

    return program, (torch.arange(4.0) + 1,)
