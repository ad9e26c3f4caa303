"""Functions that compile again and again, each for another reason; the last one until torch gives up.

Each marked function is compiled anew for the reasons in its comment, in this order.

Try:

    dynalyze explain samples/recompiles.py
"""

import torch
from torch import nn


@torch.compile(backend="eager")
def running_mean(signal: torch.Tensor) -> torch.Tensor:  # recompiles: shape
    """The second length makes torch compile for any length, so the third one fits."""
    return signal.cumsum(0) / len(signal)


@torch.compile(backend="eager", dynamic=False)
def smooth(signal: torch.Tensor, window: int) -> torch.Tensor:  # recompiles: value value
    """With dynamic=False every int is a constant to the compiler."""
    return signal.unfold(0, window, 1).mean(1)


class Sampler(nn.Module):
    """Keeps a setting as a Python int, which the program changes between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.keep = 1

    def forward(self, logits: torch.Tensor) -> torch.Tensor:  # recompiles: module_attribute module_attribute
        return logits.topk(self.keep).values.softmax(-1)


@torch.compile(backend="eager")
def energy(x: torch.Tensor) -> torch.Tensor:  # recompiles: global_state
    """Called with gradients and without: to the compiler these are two programs."""
    return (x * x).sum()


@torch.compile(backend="eager")
def greet(x: torch.Tensor, name: str) -> torch.Tensor:  # recompiles: value value value value value value value limit
    """Eight names compile eight times. That is the limit: every further name runs in eager."""
    return x * len(name)


NAMES = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Kathleen", "Margaret")


def main() -> None:
    x = torch.arange(12.0)
    for length in (4, 7, 9):
        running_mean(x[:length])
    for window in (2, 3, 4):
        smooth(x, window)
    sampler = Sampler()
    compiled = torch.compile(sampler, backend="eager")
    for sampler.keep in (1, 2, 3):
        compiled(x)
    energy(x)
    with torch.no_grad():
        energy(x)
    for name in NAMES:
        greet(x, name)


if __name__ == "__main__":
    main()
