"""Dropouts are run in another order to save memory, and draw each other's numbers."""

import torch
import torch.nn.functional as F


def build():
    def program(large, small):
        encoded = F.dropout(large.exp(), 0.5, training=True)
        folded = torch.mm(encoded, encoded.t()).sum(0)
        decoded = F.dropout(small.cos(), 0.5, training=True)
        return folded[:4].sum() + torch.mm(decoded, decoded.t()).sum(), decoded

    return program, (torch.linspace(0, 1, 512 * 64).reshape(512, 64), torch.ones(4, 4))
