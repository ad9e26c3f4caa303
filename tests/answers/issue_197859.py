"""A submodule that is hidden by an attribute of the object stays in use."""

import torch


class Wrapper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Identity()

    def forward(self, x):
        return self.inner(x)


def build():
    return Wrapper(), (torch.ones(3),)


def use(program, compiled):
    first = compiled(torch.ones(3))
    object.__setattr__(program, "inner", torch.nn.Softmax(dim=0))
    return first, compiled(torch.ones(3))
