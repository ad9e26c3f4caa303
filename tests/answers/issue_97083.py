"""A view that lives on past a graph break does not see a later change."""

import torch


def build():
    def program(x):
        part = x[0:1]
        single = part.squeeze()
        part[0] = 0
        torch._dynamo.graph_break()
        part[0] = 2
        return single

    return program, (torch.ones(3),)
