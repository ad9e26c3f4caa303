"""Which of two equal-looking objects an attribute is, is not guarded."""

import torch


class Switch:
    def __init__(self, on):
        self.up, self.down = object(), object()
        self.now = self.up if on else self.down


def build():
    def program(x, switch):
        return x.exp() if switch.now is switch.up else x - 1

    return program, [(torch.ones(2), Switch(True)), (torch.ones(2), Switch(False))]
