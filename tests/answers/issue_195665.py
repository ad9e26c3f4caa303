"""as_strided beyond the end of its storage reads other memory."""

import torch


def build():
    def program(x):
        return torch.as_strided(torch.full((3,), 2.0), (8, 8), (1, 8)).cumsum(0) + x

    return program, (torch.zeros(1),)
