"""A change through a row and one by index, of one tensor, miss each other."""

import torch


def build():
    def program(x):
        y = x.clone()
        row = y[1]
        y.index_put_((torch.tensor([1]),), torch.full((1, 3), 5.0))
        row.add_(1)
        return y, row

    return program, (torch.zeros(3, 3),)
