"""Giving a parameter other data counts as a change of it."""

import torch


def build():
    weight = torch.nn.Parameter(torch.ones(3))

    def program(x):
        with torch.no_grad():
            weight.data = x.data * 1.0
        return weight

    program.weight = weight
    return program, (torch.ones(3),)


def use(program, compiled):
    before = program.weight._version
    compiled(torch.full((3,), 2.0))
    return program.weight._version - before
