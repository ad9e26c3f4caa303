"""One model prints before it does anything, the other after it has done everything."""

import torch
from torch import nn


class Greeter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        print("request of", x.shape[0])
        return self.fc(x).relu()


class Leaver(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.last = None

    def forward(self, x):
        self.last = self.fc(x).softmax(-1)
        print("answered")


if __name__ == "__main__":
    with torch.no_grad():
        torch.compile(Greeter(), backend="eager")(torch.randn(3, 4))
        leaver = Leaver()
        torch.compile(leaver, backend="eager")(torch.randn(3, 4))
        print(leaver.last.sum(-1))
