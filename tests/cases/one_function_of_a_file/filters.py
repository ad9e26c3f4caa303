"""A file of functions; one of them is asked for by name."""

import torch


def median_gate(signal, width):
    level = signal.median()
    if level > 0:
        signal = signal - level
    return signal[..., :width].sum()


def unused(signal):
    print("never called")
    return signal


print("filters imported", torch.is_grad_enabled())
