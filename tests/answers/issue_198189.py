"""move_to_end of an OrderedDict is forgotten."""

import collections

import torch


def build():
    def program(cache, x):
        cache.move_to_end("old")
        return x - 1

    return program, (collections.OrderedDict(old=1, new=2), torch.ones(2))
