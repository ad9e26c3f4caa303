"""A file in the middle of an edit."""

import torch


def forward(x:
    return x + 1
