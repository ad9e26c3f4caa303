"""Eager with other roundings: what rounding alone can do to the answers of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynalyze.capture.bench.state_snapshot import held_tensors

_EXACT = (torch.float32, torch.float64)


class Perturbed:
    """Calls `target`, behind which is `model`, once the weights in float32 and float64 were moved by up to so many
    `units` in their last place, at random (Monte Carlo arithmetic, Parker 1997). Inputs stay: calls may write there.
    So do weights in memory that other processes have too, or a file.

    Whoever begins the next run has to put the weights back.
    """

    def __init__(self, target: Callable[..., Any], model: Callable[..., Any], units: int) -> None:
        self._target, self._waiting, self._units = target, [model], units
        self._random = torch.Generator().manual_seed(units)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        while self._waiting:
            for _, weight in held_tensors(self._waiting.pop()):
                mapped = weight.device.type == "cpu" and weight.is_shared()  # Of CUDA's it is always said.
                if isinstance(weight, torch.nn.Parameter) and weight.dtype in _EXACT and not mapped:
                    moved = 2 * torch.rand(weight.shape, generator=self._random, dtype=weight.dtype) - 1
                    weight.data.mul_(1 + self._units * torch.finfo(weight.dtype).eps * moved.to(weight.device))
        return self._target(*args, **kwargs)
