"""Hooks are put on before and after the first call of what is compiled, on what is compiled and on what is not."""

import torch
from torch import nn

seen = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, h):
        return self.last(self.first(h).relu())


def note(name):
    return lambda module, *rest: seen.append(name)


if __name__ == "__main__":
    block, apart = Block(), nn.Linear(4, 4)
    compiled = torch.compile(block, backend="eager")
    block.first.register_forward_hook(lambda module, args, h: h + 1)
    compiled(torch.ones(2, 4))
    block.last.register_forward_pre_hook(note("late"))
    apart.register_forward_hook(note("apart"))
    compiled(torch.ones(2, 4)), apart(torch.ones(2, 4))

    other = Block()
    torch.compile(other, backend="eager")(torch.ones(2, 4))
    half = torch.compile(lambda h: other(h) * 2, backend="eager")
    other.last.register_forward_hook(note("in time"))
    half(torch.ones(2, 4))
    print(seen)
