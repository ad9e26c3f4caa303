"""A rollout loop; the step it calls writes a line a step."""

import torch
from torch import nn


def step(cell, state, action):
    state = cell(state + action)
    print("step", state.shape)
    return state.tanh()


class Rollout(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)

    def forward(self, state, actions):
        state = state * 0.9
        for action in actions:
            state = step(self.cell, state, action)
        return state


if __name__ == "__main__":
    rollout = torch.compile(Rollout().eval(), backend="eager")
    actions = [torch.randn(4) for _ in range(3)]
    with torch.no_grad():
        print(rollout(torch.zeros(4), actions))
