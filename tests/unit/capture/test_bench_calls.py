"""The workload of an object target: every pass meets the same inputs, buffers and random numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynalyze.capture.bench.call_workload import CallsWorkload, TrainWorkload, loss_of
from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.inputs import Inputs


def outputs_of(step: Any, passes: int = 3) -> list[Any]:
    found = []
    for _ in range(passes):
        step.prepare()
        output = step.run()
        found.append(output.detach().clone() if isinstance(output, torch.Tensor) else output)
    return found


def one_step(model: Any, *args: Any, grad: bool = False, **kwargs: Any) -> Any:
    (step,) = CallsWorkload(model, [Inputs(args, kwargs)], phase="forward", grad=grad).steps(model)
    return step


def all_equal(tensors: list[torch.Tensor]) -> bool:
    return all(torch.equal(tensors[0], each) for each in tensors)


def test_an_input_written_to_in_place_is_restored() -> None:
    given = torch.ones(3)
    step = one_step(lambda x: x.add_(1).clone(), given)
    assert [x.tolist() for x in outputs_of(step)] == [[2.0] * 3] * 3
    assert given.tolist() == [1.0] * 3  # The caller's own tensor is never touched.


def test_a_write_that_raises_no_version_is_noticed() -> None:
    step = one_step(lambda x: x.detach().numpy().__iadd__(1).sum(), torch.ones(3))
    assert outputs_of(step) == [6.0] * 3


def test_random_numbers_and_buffers_are_those_of_the_first_pass() -> None:
    dropout = torch.nn.Dropout(0.5)
    assert all_equal(outputs_of(one_step(dropout, torch.ones(64))))
    norm = torch.nn.BatchNorm1d(4)
    step = one_step(norm, torch.randn(8, 4))
    outputs_of(step)
    step.prepare()
    assert norm.running_mean is not None and norm.running_mean.tolist() == [0.0] * 4

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))
            self.eval()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    assert all_equal(outputs_of(one_step(Counts(), torch.ones(1))))


def test_gradients_are_off_unless_asked_for() -> None:
    assert outputs_of(one_step(lambda x: torch.is_grad_enabled(), 1)) == [False] * 3
    assert outputs_of(one_step(lambda x: torch.is_grad_enabled(), 1, grad=True)) == [True] * 3


def test_sizes_are_told_where_they_are_known() -> None:
    def sizes(*calls: Inputs) -> tuple[Any, ...]:
        workload = CallsWorkload(torch.relu, list(calls), phase="forward", grad=False)
        return workload.batch, workload.sequence, workload.items, workload.tokens

    image = Inputs((torch.ones(4, 3, 8, 8),), {})
    tokens = Inputs((), {"input_ids": torch.ones(2, 16, dtype=torch.int64)})
    assert sizes(image) == (4, None, 4.0, None)
    assert sizes(tokens) == (2, 16, 2.0, 32.0)
    assert sizes(tokens, image) == (None, None, 6.0, None)
    assert sizes(Inputs((1, "text"), {})) == (None, None, None, None)


def test_inputs_without_values_cannot_be_replayed() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(2)
    with pytest.raises(Failed) as raised:
        CallsWorkload(torch.relu, [Inputs((fake,), {})], phase="forward", grad=False)
    assert raised.value.kind == "not_replayable"


def test_a_training_step_leaves_gradients_and_the_same_weights() -> None:
    model = torch.nn.Linear(3, 2)
    before = model.weight.detach().clone()
    given = torch.randn(4, 3)
    workload = TrainWorkload(CallsWorkload(model, [Inputs((given,), {})], phase="train", grad=True))
    (step,) = workload.steps(model)
    gradients = []
    for _ in range(3):
        step.prepare()
        assert model.weight.grad is None
        step.run()
        gradients.append(model.weight.grad.clone())
    # The mean over 4 x 2 outputs: each weight's gradient is the mean of its input, halved.
    assert torch.allclose(gradients[0], (given.mean(0) / 2).expand(2, 3))
    assert all_equal(gradients)
    assert torch.equal(model.weight, before)


def test_the_optimizer_really_steps() -> None:
    model = torch.nn.Linear(3, 2)
    (step,) = TrainWorkload(CallsWorkload(model, [Inputs((torch.ones(1, 3),), {})], phase="train", grad=True)).steps(
        model
    )
    for _ in range(2):
        step.prepare()
        step.run()
    assert int(step.optimizer.state[model.weight]["step"]) == 2


def test_the_loss_is_the_models_own_where_it_has_one() -> None:
    class Output:
        loss = torch.tensor(3.0, requires_grad=True)

    assert loss_of(Output()).item() == 3.0
    pair = (torch.ones(2, 2, requires_grad=True), {"more": torch.full((3,), 2.0, requires_grad=True)})
    assert loss_of(pair).item() == 3.0
    with pytest.raises(Failed):
        loss_of(torch.ones(2))
