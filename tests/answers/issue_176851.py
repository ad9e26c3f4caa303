"""A number of a class that is changed between the calls is not guarded."""

import torch


def build():
    class Settings:
        factor = 1.0

    def program(x):
        return x * Settings.factor

    program.settings = Settings
    return program, (torch.tensor([2.0]),)


def use(program, compiled):
    first = compiled(torch.tensor([2.0]))
    program.settings.factor = 8.0
    return first, compiled(torch.tensor([2.0]))
