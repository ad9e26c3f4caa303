"""Autocast is left on when an error leaves its block."""

import torch


def build():
    def program(x, rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x.index_select(0, rows)

    return program, (torch.ones(2, 2), torch.tensor([0]))


def use(program, compiled):
    try:
        compiled(torch.ones(2, 2), torch.tensor([9]))
    except (IndexError, RuntimeError):
        pass
    left = torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cpu", False)
    return left
