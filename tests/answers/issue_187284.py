"""The tangent of a dual number is lost."""

import torch


def build():
    def program(x):
        return (x**3).sum()

    return program, (torch.ones(3),)


def use(program, compiled):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.ones(2))
        tangent = torch.autograd.forward_ad.unpack_dual(compiled(dual)).tangent
        return None if tangent is None else tangent.clone()
