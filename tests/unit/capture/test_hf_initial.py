"""Cheap weights: of the scale that was asked for, equal for equal seeds, and different from row to row."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from dynalyze.capture.libraries.building import fast_values

init = torch.nn.init
Fill = Callable[[torch.Tensor], object]

FILLS: dict[str, Fill] = {
    "normal": lambda tensor: init.normal_(tensor, 0.5, 0.02),
    "uniform": lambda tensor: init.uniform_(tensor, -0.3, 0.1),
    "truncated": lambda tensor: init.trunc_normal_(tensor, std=0.02, a=-0.04, b=0.04),
    "kaiming": init.kaiming_uniform_,
    "xavier": init.xavier_normal_,
    "own": lambda tensor: tensor.normal_(std=2.0),
    "named": lambda tensor: tensor.uniform_(to=3.0, **{"from": 1.0}),
}


def filled(fill: Fill, seed: int = 0, shape: tuple[int, ...] = (300, 256)) -> torch.Tensor:
    tensor = torch.empty(shape)
    with fast_values(seed):
        fill(tensor)
    return tensor


@pytest.mark.parametrize("name", FILLS)
def test_scale_and_bounds_are_those_of_the_real_one(name: str) -> None:
    fast, real = filled(FILLS[name]), torch.empty(300, 256)
    torch.manual_seed(0)
    FILLS[name](real)
    assert fast.isfinite().all()
    assert fast.std().item() == pytest.approx(real.std().item(), rel=0.05)
    assert fast.mean().item() == pytest.approx(real.mean().item(), abs=0.05 * real.std().item())
    margin = 0.5 * real.std().item()
    assert fast.min() >= real.min() - margin
    assert fast.max() <= real.max() + margin


def test_equal_seeds_give_equal_weights() -> None:
    assert torch.equal(filled(init.normal_, 3), filled(init.normal_, 3))
    assert not torch.equal(filled(init.normal_, 3), filled(init.normal_, 4))


def test_a_view_with_gaps_takes_the_real_values_and_leaves_the_rest() -> None:
    tensor = torch.zeros(8, 8)
    with fast_values(0):
        tensor[:, ::2].normal_()
    assert (tensor[:, 1::2] == 0).all()
    assert tensor[:, ::2].std() > 0


def test_afterwards_torch_is_as_it_was() -> None:
    before = torch.Tensor.normal_, torch.Tensor.uniform_
    own = {"normal_", "uniform_"} & set(vars(torch.Tensor))
    with pytest.raises(ZeroDivisionError), fast_values(0):
        raise ZeroDivisionError
    assert (torch.Tensor.normal_, torch.Tensor.uniform_) == before
    assert {"normal_", "uniform_"} & set(vars(torch.Tensor)) == own
    torch.manual_seed(0)
    one = torch.empty(8).normal_()
    torch.manual_seed(0)
    assert torch.equal(one, torch.randn(8))
