import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        hidden = self.fc(x)
        print("encoding", hidden.dim())
        return hidden.sigmoid()


def work(width, answers):
    encoder = torch.compile(Encoder(width).eval(), backend="eager")
    with torch.no_grad():
        answers.put(tuple(encoder(torch.ones(2, width)).shape))
