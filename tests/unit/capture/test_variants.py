"""Inputs in another form: what each variant changes, what it leaves, and which are no others or refused in eager."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.variants import VariedWorkload
from dynalyze.capture.inputs import Inputs

_IMAGE = torch.arange(24.0).reshape(2, 3, 2, 2)
_ROWS = torch.arange(6.0).reshape(2, 3)


def _workload(model: Callable[..., Any], *inputs: Any) -> CallsWorkload:
    return CallsWorkload(model, [Inputs(inputs, {})], phase="forward", grad=False)


def _given(variant: str, *inputs: Any) -> list[tuple[Any, ...]]:
    """What a function gets in each call of a pass."""
    seen: list[tuple[Any, ...]] = []
    for step in VariedWorkload(_workload(print, *inputs), variant).steps(lambda *args: seen.append(args)):
        step.prepare()
        step.run()
    return seen


def _one(variant: str, tensor: torch.Tensor) -> torch.Tensor:
    ((made,),) = _given(variant, tensor)
    return made


def test_memory_is_another_and_the_values_are_the_same() -> None:
    for variant in ("other memory format", "not contiguous", "storage offset"):
        made = _one(variant, _IMAGE)
        assert torch.equal(made, _IMAGE)
        assert (made.stride(), made.storage_offset()) != (_IMAGE.stride(), _IMAGE.storage_offset())
    assert _one("other memory format", _IMAGE).is_contiguous(memory_format=torch.channels_last)
    assert _one("other memory format", _ROWS).stride() == (1, 2)
    assert _one("storage offset", _ROWS).storage_offset() == 1
    assert _one("expanded", _ROWS).stride() == (0, 1)


def test_a_batch_is_the_first_dimension_that_all_tensors_share() -> None:
    for size in (0, 1, 7):
        ((one, other, text),) = _given(f"batch {size}", _ROWS, torch.zeros(2), "mean")
        assert (one.shape, other.shape, text) == ((size, 3), (size,), "mean")
    first, second = _given("a second call with another batch", _ROWS)
    assert torch.equal(first[0], _ROWS) and torch.equal(second[0], _ROWS[[0, 1, 0]])


def test_special_values_stand_among_the_own_ones_and_integers_keep_their_type() -> None:
    made = _one("NaN", _ROWS)
    assert made.isnan().sum() == 2 and made[0, 1] == 1
    assert _one("infinities", _ROWS)[0, 0] == math.inf and _one("infinities", _ROWS)[1, 0] == -math.inf
    assert 0 < float(_one("subnormal numbers", _ROWS)[0, 0]) < torch.finfo(torch.float32).tiny
    ((floats, numbers),) = _given("largest and least integers", _ROWS, torch.tensor([1, 2], dtype=torch.int8))
    assert torch.equal(floats, _ROWS) and numbers.tolist() == [127, -128]


def test_gradients_are_wanted_or_not_and_tensors_of_one_form_become_one() -> None:
    ((made, flags),) = _given("gradients", _ROWS, torch.tensor([True]))
    assert made.requires_grad and not flags.requires_grad and torch.is_grad_enabled()
    ((made,),) = _given("gradients", _ROWS.clone().requires_grad_())
    assert not made.requires_grad
    ((one, two, other),) = _given("one tensor as several", _ROWS, _ROWS + 1, torch.zeros(2))
    assert one is two and other is not one


@pytest.mark.parametrize(
    ("variant", "inputs"),
    [
        ("batch 7", (_ROWS, torch.zeros(3))), ("batch 1", (torch.zeros(1, 2),)), ("NaN", (torch.tensor([1]),)),
        ("one tensor as several", (_ROWS, torch.zeros(2))), ("expanded", (torch.zeros(1, 2),)), ("gradients", (3,)),
        ("other memory format", (torch.zeros(3),)), ("largest and least integers", (_ROWS,)),
    ],
)  # fmt: skip
def test_what_makes_no_difference_is_no_variant(variant: str, inputs: tuple[Any, ...]) -> None:
    assert VariedWorkload(_workload(lambda *args: args, *inputs), variant).refusal() is None


def test_what_eager_refuses_is_told_and_a_changed_buffer_is_put_back() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x.reshape(2, -1)

    model = Counts()
    workload = _workload(model, torch.zeros(4, 2))
    assert str(VariedWorkload(workload, "batch 1").refusal()) == ""
    assert str(VariedWorkload(_workload(model, torch.zeros(2, 1)), "batch 7").refusal()).startswith(
        "RuntimeError: shape"
    )
    assert model.calls.item() == 0
