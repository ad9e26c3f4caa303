"""A generator that is returned comes out as another iterator."""

import torch


def build():
    def program(x):
        def parts():
            yield x + 1
            yield x + 2

        return parts()

    return program, (torch.ones(2),)
