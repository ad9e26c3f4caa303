import torch
from torch import nn

from ..text import clean


class Ranker(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, 1)

    def forward(self, items, title):
        scores = self.fc(items).squeeze(-1)
        weight = clean(title)
        return scores * weight


def build():
    torch.manual_seed(0)
    return Ranker().eval(), (torch.randn(3, 4), " Red shoes ")
