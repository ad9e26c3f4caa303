"""A small model under Inductor: one break, a second batch size, a function that falls back to eager."""

import torch


class Scorer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.linear(x)
        print("scored")
        return torch.relu(hidden) + 1


@torch.compile
def label(x, names):
    for name in names:
        print(name)
        x = x + 1
    return x


scorer = torch.compile(Scorer())
for batch in (2, 3):
    scorer(torch.ones(batch, 4))
label(torch.ones(4), ["a"])
