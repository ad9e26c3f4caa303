"""A margin is not rounded to bfloat16, so a value at the bound gets no gradient."""

import torch
import torch.nn.functional as F


def build():
    def program(x, y, side):
        return F.margin_ranking_loss(x, y, side, margin=1.7)

    x = torch.tensor([1.703125, 0.5], dtype=torch.bfloat16, requires_grad=True)
    y = torch.zeros(2, dtype=torch.bfloat16)
    return program, (x, y, -torch.ones(2, dtype=torch.bfloat16).neg())
