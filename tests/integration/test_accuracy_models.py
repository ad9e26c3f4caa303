"""The accuracy test on models that are hard to compare: they draw, change, cannot be copied, or do not fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import torch
from accuracy_runs import TwoHeads, calls, judged, replacing, training, verdicts

import dynalyze.capture.bench.accuracy as accuracy_module
from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.report.measurements import Accuracy

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Dropping(torch.nn.Module):
    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 64)
        self.drop = torch.nn.Dropout(share)
        self.norm = torch.nn.BatchNorm1d(64)
        self.last = torch.nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(
            self.drop(self.norm(torch.relu(self.first(x)))) + 0.1 * torch.randn(x.shape[0], 64, dtype=x.dtype)
        )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_and_noise_have_the_same_numbers_everywhere(backend: str, dtype: torch.dtype) -> None:
    found = judged(training(Dropping().to(dtype), torch.randn(32, 16).to(dtype)), backend)
    assert found.anchored and found.deterministic
    assert found.verdict in ("equal", "benign"), found.reason
    output = next(tensor for tensor in found.tensors if tensor.name == "output")
    # With other masks or noise in fp64 the error would be as large as the values.
    assert output.eager_rmse < (1e-6 if dtype is torch.float32 else 2e-2)  # type: ignore[operator]
    assert {"buffer norm.running_mean", "buffer norm.running_var", "first.weight"} <= verdicts(found).keys()
    assert all(tensor.eager_rmse is not None for tensor in found.tensors)


def test_other_random_numbers_are_not_comparable() -> None:
    def drawing(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn_like(x)

    def twice(x: torch.Tensor, **_: Any) -> torch.Tensor:
        torch.randn_like(x)
        return torch.randn_like(x)

    found = judged(calls(drawing, torch.randn(16, 16)), replacing(torch.randn_like, twice))
    assert found.verdict == "not comparable"
    assert "random numbers" in found.reason


def test_eager_that_differs_from_itself_is_said_to() -> None:
    @torch._dynamo.disable
    def noise(x: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator()
        generator.seed()  # From the system's own noise: nothing can be put back.
        return torch.randn(x.shape, generator=generator)

    def much(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(noise(x)) + torch.cos(x) * 0

    def little(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + noise(x) * 1e-2

    x = torch.randn(64, 64)
    found = judged(calls(much, x))
    assert found.deterministic is False and found.verdict == "not comparable"
    assert "not deterministic" in found.reason
    found = judged(calls(little, x))
    assert found.deterministic is False and found.verdict == "benign"
    wrong = replacing(torch.sin, lambda x: torch.sin(x) * 1.2)
    assert judged(calls(little, x), wrong).verdict == "suspicious"


class Uncopied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.lock = threading.Lock()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x))


def test_a_model_that_cannot_be_copied_is_judged_by_its_cosine() -> None:
    x = torch.randn(32, 8)
    found = judged(calls(Uncopied(), x))
    assert found.verdict == "equal" and not found.anchored
    assert "cosine" in found.reason and "lock" in found.reason
    slightly = replacing(torch.sigmoid, lambda x: torch.sigmoid(x) + 0.005)
    assert judged(calls(Uncopied(), x), slightly).verdict == "benign"
    for wrong in (lambda x: torch.sigmoid(x) * 2, lambda x: 1 - torch.sigmoid(x)):
        assert judged(calls(Uncopied(), x), replacing(torch.sigmoid, wrong)).verdict == "suspicious"


class Mutating(torch.nn.Module):
    """Changes a buffer, a plain attribute and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.scale = torch.ones(4)
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        self.count += 1
        x.mul_(2)
        return torch.sin(x) * self.scale * self.count + self.total


def test_what_is_changed_in_place_is_compared_and_put_back() -> None:
    model, x = Mutating(), torch.randn(8, 4)
    kept = x.clone()
    found = judged(calls(model, x))
    assert verdicts(found) == {"output": "equal", "buffer total": "equal", "0 after the call": "equal"}
    assert found.anchored and found.deterministic
    assert model.count == 0 and not model.total.any() and torch.equal(x, kept)
    forgetting = replacing(torch.Tensor.mul_, lambda x, y: x.mul(y))
    assert verdicts(judged(calls(model, x), forgetting))["0 after the call"] == "suspicious"


def test_flips_of_the_largest_logit() -> None:
    def half_flipped(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[: len(y) // 2] = -y[: len(y) // 2]
        return y

    def head(x: torch.Tensor) -> torch.Tensor:
        return torch.neg(x)

    found = judged(calls(head, torch.randn(8, 128)), replacing(torch.neg, lambda x: half_flipped(torch.neg(x))))
    assert found.argmax_flips == 0.5
    assert judged(calls(head, torch.randn(8, 12))).argmax_flips is None


class Casting(torch.nn.Module):
    """Names narrower types itself, as the norms of language models do, and keeps a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64))
        self.shift = torch.rand(64, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(torch.bfloat16) + self.shift + torch.zeros(64, dtype=torch.float32)


def test_fp64_is_fp64_throughout() -> None:
    model, x = Casting(), torch.randn(8, 64)
    wide = x.double()
    truth = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * model.weight.double() + model.shift.double()
    expected = (model(x).double() - truth).square().mean().sqrt().item()
    found = judged(calls(model, x))
    assert found.anchored
    assert found.tensors[0].eager_rmse == pytest.approx(expected, rel=1e-9)


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_module, "free_memory", lambda model: 1000)
    found = judged(calls(TwoHeads(), torch.randn(6, 16)))
    assert found.verdict == "not comparable" and "GiB" in found.reason

    def hungry(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*_: Any) -> Any:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB")

        return run

    monkeypatch.setattr(accuracy_module, "free_memory", lambda model: None)
    found = judged(calls(TwoHeads(), torch.randn(6, 16)), hungry)
    assert found.verdict == "not comparable" and "Compiled runs out of memory" in found.reason


def test_failures_become_reasons() -> None:
    def failing(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        raise RuntimeError("no such kernel")

    found = judged(calls(TwoHeads(), torch.randn(6, 16)), failing)
    assert found.verdict == "not comparable" and found.reason.startswith("Compiled fails")
    found = judged(calls(TwoHeads(), torch.randn(6, 17)))
    assert found.verdict == "not comparable" and found.reason.startswith("Eager fails")
    uncompiled = accuracy(calls(TwoHeads(), torch.randn(6, 16)), TwoHeads, Configuration("x", backend="eager"))
    assert uncompiled["verdict"] == "not comparable" and "nothing was compiled" in uncompiled["reason"].lower()


def test_parts_that_the_model_compiles_itself_are_eager_in_eager() -> None:
    ran: list[str] = []

    def noisy(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        ran.append("compiled")
        return lambda *args: [out * 1.1 for out in graph.forward(*args)]

    model = torch.nn.Sequential(TwoHeads())
    model[0].compile(backend=noisy)
    model(torch.randn(2, 16))
    assert ran
    found = judged(calls(model, torch.randn(6, 16)), noisy)
    assert found.verdict == "suspicious"
    assert all((tensor.eager_rmse or 0) < 1e-6 for tensor in found.tensors)


def test_a_gap_that_emulating_eagers_rounding_removes_is_rounding_only() -> None:
    workload = calls(TwoHeads(), torch.randn(6, 16))

    def rounds_elsewhere(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        assert not torch._inductor.config.fallback_random  # Nothing is random: compared as it is compiled.
        factor = 1.0 if torch._inductor.config.emulate_precision_casts else 1.1
        return lambda *args: [out * factor for out in graph.forward(*args)]

    def test_of(name: str) -> Accuracy:
        compile_it = lambda: torch.compile(workload.model, backend=rounds_elsewhere)  # noqa: E731
        return msgspec.convert(accuracy(workload, compile_it, Configuration("x", backend=name)), Accuracy)

    found = test_of("inductor")
    assert (found.verdict, found.reason) == ("rounding only", "")
    for tensor in found.tensors:
        assert tensor.emulated_rmse == tensor.eager_rmse < tensor.compiled_rmse  # type: ignore[operator]
    # Another backend cannot be told how to round.
    assert test_of("eager").verdict == "suspicious"
