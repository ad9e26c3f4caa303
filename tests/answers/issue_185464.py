"""The multilabel margin loss goes on behind the -1 that ends the labels."""

import torch
import torch.nn.functional as F


def build():
    def program(scores, labels):
        return F.multilabel_margin_loss(scores, labels)

    return program, (torch.tensor([[0.3, -1.2, 0.8, 0.1]]), torch.tensor([[2, 1, -1, -1]]))
