"""Sums a tree of tensors. Dynamo skips files of this name, because a package it does not trace is called so too."""

import torch


def total(node):
    value, children = node
    for child in children:
        value = value + total(child)
    return value


if __name__ == "__main__":
    compiled = torch.compile(total, backend="eager")
    leaf = (torch.ones(2), [])
    print(compiled((torch.zeros(2), [leaf, leaf])))
