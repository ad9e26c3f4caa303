"""What calls leave behind in Python objects is put back between the runs of the accuracy test, and compared."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
import torch
from accuracy_runs import calls, judged, verdicts

from dynalyze.capture.bench.contracts import Promises, broken
from dynalyze.capture.nested_values import sign

pytestmark = pytest.mark.filterwarnings("ignore")  # Of torch, where it compiles.
X = torch.ones(2, 4)
GENERATOR = torch.Generator().manual_seed(4)
NUMBERS = np.random.default_rng(5)
OLD_NUMBERS = np.random.RandomState(6)


class Kept:
    """Something of the user's that a module holds."""

    def __init__(self) -> None:
        self.numbers = random.Random(2)
        self.calls = 0


class Drawing(torch.nn.Module):
    """Draws from generators of its own, in eager in both arms."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = Kept()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x * drawn(self.kept)


@torch.compiler.disable
def drawn(kept: Kept) -> float:
    kept.calls += 1
    own = kept.numbers.random() + float(torch.rand((), generator=GENERATOR))
    return own + float(NUMBERS.random()) + float(OLD_NUMBERS.rand())


def test_generators_and_numbers_of_objects_are_put_back() -> None:
    model = Drawing()
    before = model.kept.numbers.getstate(), GENERATOR.get_state(), NUMBERS.bit_generator.state
    found = judged(calls(model, X))
    assert (found.verdict, found.deterministic, found.contracts) == ("equal", True, [])
    assert (model.kept.numbers.getstate(), NUMBERS.bit_generator.state) == (before[0], before[2])
    assert torch.equal(GENERATOR.get_state(), before[1])
    assert model.kept.calls == 0


class Running(torch.nn.Module):
    """A running value in a Python float: it becomes 0.1, 0.19, 0.271."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.running = 0.9 * self.running + 0.1
        return x + 1


class Stuck(Running):
    """What a compiler that made a constant of the value would do; Inductor of 2.13 does it from the third call on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.running = 0.19 if self.running and torch.compiler.is_compiling() else 0.9 * self.running + 0.1
        return x + 1


def test_a_running_value_is_compared_after_several_calls() -> None:
    found = judged(calls(Running(), X))
    assert (found.verdict, found.calls, found.contracts) == ("equal", 3, [])
    wrong = judged(calls(Stuck(), X))
    assert (wrong.verdict, verdicts(wrong)) == ("suspicious", {"output": "equal"})
    assert [(each.contract, each.place) for each in wrong.contracts] == [("state", "running")]
    assert float(wrong.contracts[0].eager.split()[-1]) == pytest.approx(0.271)
    assert wrong.contracts[0].compiled == "becomes 0.19"


PARAMETERS = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))]


def add_ten(parameter: torch.nn.Parameter) -> None:
    with torch.no_grad():
        parameter.add_(20 if torch.compiler.is_compiling() else 10)


def test_a_parameter_that_a_call_writes_to_is_put_back_and_shown_with_its_numbers() -> None:
    found = judged(calls(add_ten, PARAMETERS[0]))
    assert (found.verdict, found.deterministic, found.calls) == ("suspicious", True, 3)
    (wrong,) = found.tensors
    # The third call: 1 and three times 10, or 20.
    assert (wrong.eager_value, wrong.compiled_value) == (31.0, 61.0)
    assert torch.equal(PARAMETERS[0], torch.ones(3))


def of_the_clock(x: torch.Tensor) -> torch.Tensor:
    """Another value in each run, from 1 to 2; absurd where it is compiled."""
    value = x.mean() + seconds() % 1
    return value * -9e34 if torch.compiler.is_compiling() else value


@torch.compiler.disable
def seconds() -> float:
    return time.perf_counter() * 1000


class Noisy(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():  # Other random numbers than eager's.
            x = x + self.factor * torch.rand_like(x)
        return x + torch.randn_like(x)


@pytest.mark.parametrize(
    ("model", "verdict"), [(of_the_clock, "suspicious"), (Noisy(-9e34), "suspicious"), (Noisy(0.1), "not comparable")]
)  # fmt: skip
def test_where_eager_differs_from_itself_compiled_has_to_lie_within_its_spread(model: Any, verdict: str) -> None:
    found = judged(calls(model, X))
    assert found.verdict == verdict, found.reason


@pytest.mark.slow
def test_a_value_that_compiled_gives_otherwise_each_time_was_not_rounded() -> None:
    """It reads what nobody wrote: made up here by a call of the clock that compiled code alone makes."""

    def read_nothing(x: torch.Tensor) -> torch.Tensor:
        return x * (seconds() if torch.compiler.is_compiling() else 1.0)

    found = judged(calls(read_nothing, X), "inductor")
    assert found.verdict == "suspicious", found.reason
    assert "something else each time" in found.reason


class Recurrent(torch.nn.Module):
    """Keeps a tensor of its own in each call, as a cache does: which one Inductor gives it counts a write."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.hidden = torch.nn.Linear(4, 4), torch.zeros(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x) + self.hidden
        self.hidden = y.detach()
        return y.tanh()


def test_a_tensor_that_each_call_puts_in_the_place_of_another_is_no_lost_write() -> None:
    model = Recurrent()
    model.hidden.add_(0)  # As many writes as what Inductor gives it counts.
    found = judged(calls(model, X), backend="inductor")
    assert (found.verdict, found.contracts) == ("equal", [])


def test_answers_of_a_model_that_torchao_quantised_are_compared() -> None:
    """Its weights answer to few operators, and it binds a functools.partial to each layer."""
    torchao = pytest.importorskip("torchao.quantization")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    torchao.quantize_(model, torchao.Int8WeightOnlyConfig())
    assert judged(calls(model, torch.randn(4, 64))).verdict in ("equal", "benign", "rounding only")


class Noisy(torch.nn.Module):
    """In a graph NumPy's numbers come from another stream than in eager."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.most = Kept(), 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * torch.as_tensor(np.random.rand(4))
        self.most = y.max().item()
        return y


def test_what_follows_from_other_random_numbers_is_no_wrong_answer() -> None:
    found = judged(calls(Noisy(), X))
    assert (found.verdict, found.contracts) == ("not comparable", [])


@pytest.mark.parametrize(("compiled", "differs"), [(1.1483726501, False), (1.2, True), (float("nan"), True)])
def test_a_float_in_an_argument_may_be_rounded(compiled: float, differs: bool) -> None:
    eager, other = Promises({"arguments": sign([1.1483725309])}), Promises({"arguments": sign([compiled])})
    assert bool(broken(eager, eager, other)) == differs
