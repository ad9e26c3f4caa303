"""clamp with a bound beyond float32 ignores it, where eager raises."""

import torch


def build():
    def program(x):
        return x.clamp(min=-1e39, max=1e39)

    return program, (torch.tensor([-2.0, 5.0]),)
