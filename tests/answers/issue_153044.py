"""The backward runs under the autocast of the forward."""

import torch


def build():
    weight = torch.nn.Parameter(torch.full((4, 4), 0.1))

    def program(x):
        return x.float() @ weight

    program.weight = weight
    return program, (torch.ones(2, 4),)


def use(program, compiled):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = compiled(torch.linspace(0.1, 0.9, 8).reshape(2, 4))
    (result.float() * 1.2345).sum().backward()
    return program.weight.grad
