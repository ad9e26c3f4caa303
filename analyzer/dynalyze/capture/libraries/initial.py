"""Weights without their costly random numbers: cheap values of the scale that the initialisation asked for.

Transformers' own initialisation still runs in full, so norms, biases, padding rows and whatever a model computes come
out as always. Only the two tensor methods that draw random numbers, on which all of torch.nn.init rests, take theirs
from a block that was drawn once and is repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

# A prime: rows of a weight never fall on the same part of the block, so no two of them are equal.
_BLOCK = 65521
# Where the next tensor's values begin within the block.
_STRIDE = 7919


@contextlib.contextmanager
def fast_values(seed: int) -> Iterator[None]:
    """Within it, `normal_` and `uniform_` of every tensor repeat one seeded block of random numbers.

    Their results have the mean, deviation and bounds that were asked for, and are equal for equal seeds.
    """
    import torch

    normal, uniform = _Block(torch.randn, seed), _Block(torch.rand, seed + 1)
    real_normal, real_uniform = torch.Tensor.normal_, torch.Tensor.uniform_

    def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        if not _can_fill(tensor):
            return real_normal(tensor, mean, std, generator=generator)
        return normal.fill(tensor, std, mean)

    def uniform_(tensor: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None, **named: float) -> Any:
        # `from` and `to`, as torch calls them, cannot be names of parameters.
        low, high = named.get("from", low), named.get("to", high)
        if not _can_fill(tensor) or high < low:
            return real_uniform(tensor, low, high, generator=generator)
        return uniform.fill(tensor, high - low, low)

    with _replaced(torch.Tensor, "normal_", normal_), _replaced(torch.Tensor, "uniform_", uniform_):
        yield


def _can_fill(tensor: Any) -> bool:
    """Whether a copy is the same and worth it: storage in one piece, real numbers, on a device that has any."""
    return bool(tensor.is_floating_point() and tensor.is_contiguous() and tensor.device.type != "meta")


class _Block:
    """Random numbers drawn once, and where the next tensor starts reading them."""

    def __init__(self, draw: Callable[..., Any], seed: int) -> None:
        import torch

        drawn = draw(_BLOCK, generator=torch.Generator().manual_seed(seed), device="cpu")
        self._twice = torch.cat([drawn, drawn])
        self._offset = 0

    def fill(self, tensor: Any, scale: float, shift: float) -> Any:
        import torch

        with torch.no_grad():
            values = self._twice[self._offset : self._offset + _BLOCK]
            self._offset = (self._offset + _STRIDE) % _BLOCK
            values = (values[: tensor.numel()] * scale + shift).to(tensor.device, tensor.dtype)
            flat = tensor.view(-1)
            whole = tensor.numel() // _BLOCK * _BLOCK
            if whole:
                flat[:whole].view(-1, _BLOCK).copy_(values)
            flat[whole:].copy_(values[: tensor.numel() - whole])
        return tensor


@contextlib.contextmanager
def _replaced(owner: type, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """A method of a class replaced; one that it inherits is inherited again afterwards."""
    own = vars(owner).get(name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
