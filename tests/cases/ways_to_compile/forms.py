"""All the ways to ask for compilation in one program: a bound method, a nested compiled function, model.compile()."""

import torch
from torch import nn


class Sampler:
    def __init__(self, scale):
        self.scale = scale

    def draw(self, x):
        y = x * self.scale
        print("drawing", y.shape)
        return y.round()


@torch.compile(backend="eager")
def inner(x):
    y = x.exp()
    level = y.sum().item()
    return y / level


@torch.compile(backend="eager")
def outer(x):
    shifted = x - x.max()
    return inner(shifted) * 2


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        gate = self.fc(x).sigmoid()
        if gate.mean() > 0.5:
            return x * gate
        return x


if __name__ == "__main__":
    sampler = Sampler(3.0)
    draw = torch.compile(sampler.draw, backend="eager")
    gate = Gate().eval()
    gate.compile(backend="eager")
    with torch.no_grad():
        print(draw(torch.ones(2)), outer(torch.ones(2)), gate(torch.ones(1, 3)).shape)
