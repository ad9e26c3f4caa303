"""A loop over a list that grows meanwhile stops at its first length."""

import torch


def build():
    def program(x):
        values = [x.sum()]

        def growing():
            for value in values:
                if len(values) < 4:
                    values.append(value * 2)
                yield value

        return torch.stack(list(growing()))

    return program, (torch.ones(2),)
