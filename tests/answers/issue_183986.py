"""index_add of an expanded tensor adds into the memory that its rows share."""

import torch


def build():
    def program(row, index, source):
        return row.expand(3, 4).index_add(0, index, source)

    return program, (torch.ones(1, 4), torch.tensor([0, 2, 2]), torch.ones(3, 4))
