"""Hooks on saved tensors are not called as in eager."""

import torch


def build():
    def program(a, b):
        return a * b

    return program, (torch.ones((), requires_grad=True), torch.ones((), requires_grad=True))


def use(program, compiled):
    a, b = torch.tensor(3.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, lambda kept: kept * 2):
        result = compiled(a, b)
    result.backward()
    return a.grad, b.grad
