"""An embedding takes negative indices, counted from the end."""

import torch
import torch.nn.functional as F


def build():
    def program(tokens, table):
        return F.embedding(tokens, table)

    return program, (torch.tensor([0, -1, 2]), torch.arange(8.0).reshape(4, 2))
