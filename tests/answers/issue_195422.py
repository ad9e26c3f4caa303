"""Dropout outside of training gives back its input, and a change of that is lost."""

import torch
import torch.nn.functional as F


def build():
    def program(x):
        same = F.dropout(x, 0.3, training=False)
        same *= 3
        return same

    return program, (torch.arange(6.0),)
