"""Rows that are named twice are added to twice, where each is to be written once."""

import torch


def build():
    def program(table):
        rows = torch.tensor([1, 1, 2])
        table[rows] += table[rows] * 0.5
        return table

    return program, (torch.arange(12.0).reshape(4, 3),)
