"""A sample of a normal distribution with a half mean and a float deviation is float."""

import torch


def build():
    def program(mean, deviation):
        return torch.distributions.Normal(mean, deviation, validate_args=False).sample()

    return program, (torch.zeros(5, dtype=torch.half), torch.ones(5))
