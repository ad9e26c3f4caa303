"""Fresh inputs look like those that were given: what kind they are stays, what they hold does not."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.fixing.random_inputs import DrawnWorkload, Kind, NoSuchDraw, redrawn
from dynalyze.capture.inputs import Inputs

KINDS: list[Kind] = ["alike", "floats", "near", "zeros", "negated", "large", "tiny", "constant", "nan", "inf"]
DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def drawn(value: Any, kind: Kind = "alike", seed: int = 0) -> Any:
    return redrawn(value, kind, torch.Generator().manual_seed(seed))


@settings(max_examples=60)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3), dtype=st.sampled_from(DTYPES), kind=st.sampled_from(KINDS),
    turned=st.booleans(), seed=st.integers(0, 5),
)  # fmt: skip
def test_shape_strides_and_dtype_are_kept(
    shape: list[int], dtype: torch.dtype, kind: Kind, turned: bool, seed: int
) -> None:
    value = (torch.randn(shape) * 3).to(dtype)
    value = value.mT if turned and value.dim() > 1 else value
    made = drawn(value, kind, seed)
    assert (made.shape, made.stride(), made.dtype) == (value.shape, value.stride(), value.dtype)
    assert torch.equal(made.nan_to_num(), drawn(value, kind, seed).nan_to_num())  # By the seed alone.


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), left=st.booleans(), seed=st.integers(0, 9))
def test_masks_stay_masks_with_their_padding_at_its_end(lengths: list[int], left: bool, seed: int) -> None:
    mask = torch.arange(6).expand(len(lengths), 6) < torch.tensor(lengths)[:, None]
    mask = mask.flip(-1).long() if left else mask.long()
    made = drawn(mask, seed=seed)
    assert set(made.unique().tolist()) <= {0, 1}
    steps = made.diff(dim=-1)
    assert bool((steps >= 0).all()) if left and mask.min() == 0 else bool((steps <= 0).all())
    assert bool((made.sum(-1) > 0).all())


@given(values=st.lists(st.integers(-50, 50), min_size=1, max_size=8), seed=st.integers(0, 9))
def test_integers_stay_in_the_range_they_had(values: list[int], seed: int) -> None:
    made = drawn(torch.tensor(values), seed=seed)
    values = [0, 1] if set(values) <= {0, 1} and any(values) else values  # A mask.
    assert min(values) <= int(made.min()) and int(made.max()) <= max(values)


def test_positions_stay_and_floats_change() -> None:
    assert torch.equal(drawn(torch.arange(5)), torch.arange(5))
    value = torch.randn(100)
    made = drawn(value)
    assert not torch.equal(made, value)
    assert abs(float(made.mean() - value.mean())) < 1 and abs(float(made.std() - value.std())) < 1
    assert set(drawn(torch.tensor([0.0, 1.0, 1.0, 0.0])).unique().tolist()) <= {0.0, 1.0}


def test_what_is_expanded_is_drawn_once_and_stays_expanded() -> None:
    made = drawn(torch.randn(3, 1).expand(3, 4))
    assert made.stride() == (1, 0)
    assert torch.equal(made[:, 0], made[:, 3])


def test_one_tensor_in_two_places_stays_one_and_modules_stay_what_they_are() -> None:
    value, module = torch.randn(3), torch.nn.Linear(2, 2)
    one, (other, kept) = drawn((value, [value, module]))
    assert one is other and one is not value and kept is module


def test_infinities_of_a_mask_stay() -> None:
    value = torch.tensor([0.5, float("-inf"), 1.5])
    assert torch.isinf(drawn(value)).tolist() == [False, True, False]


class Noting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.seen: list[Any] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen.append((x.shape, y.shape, x.requires_grad, torch.is_grad_enabled(), self.training,
                          float(self.inner.weight.detach().sum())))  # fmt: skip
        return x + y


@pytest.mark.parametrize(
    "circumstance, shapes, grad, training, sign",
    [
        ("", [(3, 2), (3, 2)], False, False, 1),
        ("gradients", [(3, 2), (3, 2)], True, False, 1),
        ("other mode", [(3, 2), (3, 2)], True, True, 1),
        ("smaller batch", [(1, 2), (1, 2)], False, False, 1),
        ("larger batch", [(4, 2), (4, 2)], False, False, 1),
        ("other length", [(3, 3), (3, 3)], False, False, 1),
        ("other weights", [(3, 2), (3, 2)], False, False, -1),
    ],
)
def test_a_circumstance_changes_what_it_says_alone(
    circumstance: Any, shapes: list[tuple[int, int]], grad: bool, training: bool, sign: int
) -> None:
    model = Noting().eval()
    weights = float(model.inner.weight.detach().sum())
    workload = CallsWorkload(model, [Inputs((torch.randn(3, 2), torch.randn(3, 2)), {})], phase="forward", grad=False)
    (step,) = DrawnWorkload(workload, "alike", 1, circumstance).steps(model)
    step.prepare()
    step.run()
    of_inputs = grad and circumstance == "gradients"  # In the other mode those of weights alone.
    assert model.seen == [(*map(torch.Size, shapes), of_inputs, grad, training, sign * weights)]
    assert model.training is False


@pytest.mark.parametrize(
    "circumstance, expected",
    [("no gradients", (False, True, False)), ("other strides", (True, False, False)), ("autocast", (True, True, True))],
)
def test_modes_and_strides_that_the_calls_did_not_have(circumstance: Any, expected: tuple[bool, ...]) -> None:
    seen: list[tuple[bool, ...]] = []

    def model(*inputs: torch.Tensor) -> None:
        modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
        seen.extend((modes[0], x.is_contiguous(), modes[1]) for x in inputs)

    inputs = torch.randn(4), torch.randn(3, 1), torch.randn(2, 3, 4)
    workload = CallsWorkload(model, [Inputs(inputs, {})], phase="forward", grad=True)
    (step,) = DrawnWorkload(workload, "alike", 1, circumstance).steps(model)
    step.prepare()
    step.run()
    assert seen == [expected] * 3


@pytest.mark.parametrize(("own", "other"), [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_another_dtype_of_inputs_and_weights_while_a_call_lasts(own: torch.dtype, other: torch.dtype) -> None:
    seen: list[list[torch.dtype]] = []

    class Net(torch.nn.BatchNorm1d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append([x.dtype, self.weight.dtype, *(each.dtype for each in self.buffers())])
            return super().forward(x)

    net = Net(3).to(own).eval()
    workload = CallsWorkload(net, [Inputs((torch.randn(4, 3, dtype=own),), {})], phase="forward", grad=False)
    (step,) = DrawnWorkload(workload, "alike", 1, "other dtype").steps(net)
    step.prepare()
    step.run()
    assert seen == [[other, other, other, other, torch.int64]]
    assert {each.dtype for each in (*net.parameters(), *net.buffers())} == {own, torch.int64}


@pytest.mark.parametrize(("shape", "last"), [((2, 4, 3, 5), True), ((2, 4, 3), None), ((1, 1, 3, 1), None)])
def test_images_get_their_channels_last(shape: tuple[int, ...], last: bool | None) -> None:
    """Those of one channel are contiguous either way."""
    seen: list[bool] = []
    workload = CallsWorkload(
        lambda x: seen.append(x.is_contiguous(memory_format=torch.channels_last)), [Inputs((torch.randn(shape),), {})],
        phase="forward", grad=False,
    )  # fmt: skip
    (step,) = DrawnWorkload(workload, "alike", 1, "channels last").steps(workload.model)
    step.prepare()
    with pytest.raises(NoSuchDraw) if last is None else contextlib.nullcontext():
        step.run()
    assert seen == ([] if last is None else [last])
