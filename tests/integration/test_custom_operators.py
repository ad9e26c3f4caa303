"""Custom operators that a workload reaches are held to torch.library.opcheck, with the inputs that they got."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from accuracy_runs import calls

from dynalyze.capture.bench.operators import checked_operators

pytestmark = pytest.mark.filterwarnings("ignore")  # Of torch, where it traces.


@torch.library.custom_op("dynalyze_test::columns", mutates_args=())
def columns(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).t().contiguous().t()


@columns.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)  # Of rows.


@torch.library.custom_op("dynalyze_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("dynalyze_test::grows", mutates_args=())
def grows(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@grows.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = doubled(self.linear(x).detach())
        return grows(columns(y)).relu()


def test_a_fake_of_other_strides_and_a_write_that_no_schema_names_are_found() -> None:
    weight = torch.nn.Parameter(torch.ones(3, 4))
    found = {each["name"]: each for each in checked_operators(calls(Net(), weight), 600)}
    assert list(found) == ["dynalyze_test::doubled", "dynalyze_test::columns", "dynalyze_test::grows"]
    assert found["dynalyze_test::doubled"]["problems"] == []
    wrong = {name: {each["test"] for each in check["problems"]} for name, check in found.items()}
    assert "test_faketensor" in wrong["dynalyze_test::columns"]
    assert "test_schema" in wrong["dynalyze_test::grows"]
    place = found["dynalyze_test::columns"]["location"]
    assert (Path(place["file"]).name, place["function"]) == ("test_custom_operators.py", "forward")
    assert all(check["checked"] == 1 for check in found.values())
    assert torch.equal(weight, torch.ones(3, 4))


def test_without_time_each_operator_says_so() -> None:
    for check in checked_operators(calls(Net(), torch.ones(3, 4)), -1.0):
        assert (check["checked"], check["problems"]) == (0, []) and check["reason"]
