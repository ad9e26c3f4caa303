"""Parameters that want a gradient again do not get one."""

import torch


def build():
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)), (torch.ones(1, 3),)


def use(program, compiled):
    wanted = []
    for on in (True, False, True):
        program[0].weight.requires_grad_(on)
        program.zero_grad(set_to_none=True)
        compiled(torch.ones(1, 3)).sum().backward()
        wanted.append(program[0].weight.grad is not None)
    return wanted
