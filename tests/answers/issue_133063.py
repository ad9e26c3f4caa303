"""A generator given to extend does not see what extend has added so far."""

import torch


def build():
    def program(x):
        values = [x]
        values.extend(values[-1] + n for n in range(1, 4))
        return torch.stack(values)

    return program, (torch.zeros(2),)
