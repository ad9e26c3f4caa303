"""What padding by nothing gives is the input itself after a graph break."""

import torch
import torch.nn.functional as F


def build():
    def program(x):
        padded = F.pad(x, (0, 0))
        torch._dynamo.graph_break()
        x[0] = 5
        return padded

    return program, (torch.ones(2),)
