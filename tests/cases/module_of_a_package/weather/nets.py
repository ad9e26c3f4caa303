from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, state, days):
        state = self.step(state)
        if days > 2:
            print("long range")
            state = state * 0.5
        return state.tanh()
