"""Cross entropy takes a class that there is not."""

import torch
import torch.nn.functional as F


def build():
    def program(scores, classes):
        return F.cross_entropy(scores, classes)

    return program, (torch.linspace(-1, 1, 8).reshape(2, 4), torch.tensor([1, -1]))
