"""The accuracy test on real torch: faults that are planted are found, in the right tensor, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accuracy_runs import TwoHeads, calls, judged, replacing, training, verdicts

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.perturbed import Perturbed
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.bench.validity import Compiles


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def test_what_computes_the_same_is_equal_and_everything_is_left_as_found() -> None:
    model = TwoHeads()
    x = torch.randn(6, 16)
    model.body.weight.grad = gradient = torch.ones_like(model.body.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    found = judged(training(model, x))
    assert found.verdict == "equal" and found.reason == ""
    assert found.anchored and found.deterministic and found.argmax_flips == 0.0
    names = {(tensor.kind, tensor.name) for tensor in found.tensors}
    parameters = {("gradient", name) for name, _ in model.named_parameters()}
    assert names == {("output", "logits"), ("output", "gate"), *parameters}
    assert all(tensor.eager_rmse and tensor.eager_rmse < 1e-6 for tensor in found.tensors)
    assert torch.equal(torch.get_rng_state(), random)
    assert model.body.weight.grad is gradient
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("factor", [1.01, 0.98])
def test_a_wrong_operation_is_suspicious_in_its_own_output_alone(factor: float) -> None:
    wrong = replacing(torch.sigmoid, lambda x: torch.sigmoid(x) * factor)
    found = judged(calls(TwoHeads(), torch.randn(6, 16)), wrong)
    assert found.verdict == "suspicious"
    assert verdicts(found) == {"gate": "suspicious", "logits": "equal"}
    assert found.tensors[0].name == "gate" and "gate" in found.reason
    assert found.tensors[0].compiled_rmse is not None and found.tensors[0].eager_rmse is not None
    assert found.tensors[0].compiled_rmse > 1000 * found.tensors[0].eager_rmse


def test_one_wrong_element_among_many_is_found() -> None:
    """The root mean square of a hundred thousand elements hides a single one."""

    def last_is_off(x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        y.view(-1)[-1] += 0.02
        return y

    model = torch.nn.Sigmoid()
    found = judged(calls(model, torch.randn(1000, 200)), replacing(torch.sigmoid, last_is_off))
    assert found.verdict == "suspicious"


def test_small_values_are_held_to_their_own_size() -> None:
    """Probabilities over a vocabulary all lie below the tolerance."""
    wrong = replacing(torch.softmax, lambda x, *_, **__: torch.softmax(x, -1) * 1.5)

    def probabilities(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)

    x = torch.randn(4, 2000)
    assert judged(calls(probabilities, x), wrong).verdict == "suspicious"
    assert judged(calls(probabilities, x), "eager").verdict == "equal"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinities_that_compiling_makes_are_counted(value: float) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        y[0, :3] = value
        return y

    found = judged(calls(TwoHeads(), torch.randn(6, 16)), replacing(torch.sigmoid, broken))
    assert verdicts(found) == {"gate": "suspicious", "logits": "equal"}
    assert found.tensors[0].nonfinite == 3
    assert "3 NaN or infinite" in found.reason


def test_nan_that_eager_has_too_is_equal_and_nan_that_vanishes_is_not() -> None:
    def roots(x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x)

    x = torch.linspace(-1, 1, 50)
    assert judged(calls(roots, x)).verdict == "equal"
    hiding = replacing(torch.sqrt, lambda x: torch.sqrt(x).nan_to_num(0.0))
    assert judged(calls(roots, x), hiding).verdict == "suspicious"


def test_an_overflow_that_compiling_avoids_is_no_fault() -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        return torch.square(x) / 1000

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda x: ((x.float() ** 2 / 1000).half(),)

    x = torch.linspace(100, 1000, 64).half()
    assert torch.isinf(squared(x)).any()
    assert judged(calls(squared, x), backend).verdict == "benign"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_less_rounding_than_eager_is_benign_and_more_is_not(dtype: torch.dtype) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.sin(x) * 3
        return x

    def wide(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda x: (chain(x.float()).to(dtype),)

    def coarse(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return lambda x: ((chain(x) / 2).round() * 2,)

    x = torch.randn(64, 64).to(dtype)
    better = judged(calls(chain, x), wide)
    assert better.verdict == "benign" and better.anchored
    assert better.tensors[0].compiled_rmse < better.tensors[0].eager_rmse  # type: ignore[operator]
    assert judged(calls(chain, x), coarse).verdict == "suspicious"


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * torch.sigmoid(x)


def wrong_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return WrongBackward.apply(x)


def test_a_fault_in_the_backward_alone_is_found_in_the_gradients_below_it() -> None:
    found = judged(training(TwoHeads(), torch.randn(6, 16)), replacing(torch.sigmoid, wrong_sigmoid))
    by_name = verdicts(found)
    assert by_name.pop("gate") == by_name.pop("logits") == "equal"
    assert by_name == {
        "body.weight": "suspicious", "body.bias": "suspicious",
        "right.weight": "suspicious", "right.bias": "suspicious",
        "left.weight": "equal", "left.bias": "equal",
    }  # fmt: skip
    assert found.tensors[0].kind == "gradient" and "gradient" in found.reason


def test_gradients_of_inputs_and_of_parameters_that_a_function_reaches() -> None:
    outside = torch.nn.Linear(4, 4)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(outside(x)).mean()

    x = torch.randn(8, 4, requires_grad=True)
    right = judged(training(loss, x), "aot_eager")
    assert right.verdict == "equal"
    assert {tensor.name for tensor in right.tensors if tensor.kind == "gradient"} >= {"input 0"}
    assert len(right.tensors) == 4
    wrong = judged(training(loss, x), replacing(torch.sigmoid, wrong_sigmoid))
    assert verdicts(wrong)["input 0"] == "suspicious"


def test_a_leaf_that_each_run_makes_anew_is_one_gradient() -> None:
    """As models do it for gradient checkpointing."""

    class Restarts(TwoHeads):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            x = x * 2
            x.requires_grad = True
            return super().forward(x)

    found = judged(training(Restarts(), torch.randn(6, 16)))
    assert (found.verdict, found.deterministic) == ("equal", True)
    owned = {name for name, _ in TwoHeads().named_parameters()}
    assert {tensor.name for tensor in found.tensors if tensor.kind == "gradient"} - owned == {f"parameter {len(owned)}"}


def test_gradients_of_a_layer_that_other_random_numbers_leave_out_cannot_be_compared() -> None:
    class Skips(TwoHeads):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return super().forward(x if torch.rand([]) < share else self.extra(x))

    draws_once_more = replacing(torch.rand, lambda *_, **__: (torch.rand([]), torch.rand([]))[1])
    model, x = Skips(), torch.randn(6, 16)
    model.extra = torch.nn.Linear(16, 16)
    start = torch.get_rng_state()
    share = float(torch.rand([]) + torch.rand([])) / 2  # The layer is there with one of these numbers alone.
    torch.set_rng_state(start)
    found = judged(training(model, x), draws_once_more)
    assert found.verdict == "not comparable" and "other random numbers" in found.reason


def test_another_dtype_or_shape_is_suspicious() -> None:
    narrow = replacing(torch.sigmoid, lambda x: torch.sigmoid(x).bfloat16())
    found = judged(calls(TwoHeads(), torch.randn(6, 16)), narrow)
    assert (found.tensors[0].dtype, found.tensors[0].compiled_dtype) == ("float32", "bfloat16")
    assert found.verdict == "suspicious" and "bfloat16" in found.reason
    flat = replacing(torch.sigmoid, lambda x: torch.sigmoid(x).flatten())
    assert "shape" in judged(calls(TwoHeads(), torch.randn(6, 16)), flat).reason


def otherwise(eager: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does one thing in eager and another one when it is compiled."""

    def function(*args: Any) -> Any:
        return compiled(*args) if torch.compiler.is_compiling() else eager(*args)

    return function


def grown(values: list[Any], x: torch.Tensor) -> torch.Tensor:
    values.append(1)
    return x + 1


class Cache:
    def __init__(self, kept: torch.Tensor) -> None:
        self.kept = kept


SQUARE = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("contract", "eager", "compiled", "inputs"),
    [
        ("stride", lambda x: x.t() + 1, lambda x: (x.t() + 1).contiguous(), (SQUARE,)),
        ("memory", lambda x: x[0], lambda x: x[0].clone(), (SQUARE,)),
        ("memory", lambda x: (x + 1, x * 2), lambda x: (lambda y: (y, y[:]))(x + 1), (SQUARE,)),
        ("python", lambda x: (x + 1, 2), lambda x: (x + 1, 3), (SQUARE,)),
        ("python", grown, lambda values, x: x + 1, ([], SQUARE)),
        ("class", lambda x: [x + 1], lambda x: (x + 1,), (SQUARE,)),
        ("identity", lambda x: (lambda y: (y, y))(x + 1), lambda x: (x + 1, x + 1), (SQUARE,)),
        ("dtype", lambda x: x + 1, lambda x: (x + 1).double(), (SQUARE,)),
    ],
)  # fmt: skip
def test_what_compiled_keeps_otherwise_than_eager_is_a_broken_contract(
    contract: str, eager: Callable[..., Any], compiled: Callable[..., Any], inputs: tuple[Any, ...]
) -> None:
    found = judged(calls(otherwise(eager, compiled), *inputs))
    assert contract in {each.contract for each in found.contracts}
    assert found.verdict == "suspicious" and found.reason


def test_what_eager_refuses_and_compiled_answers_is_a_broken_contract() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("too large")

    found = judged(calls(otherwise(refuses, lambda x: x + 1), SQUARE))
    assert [(each.contract, each.eager) for each in found.contracts] == [("exception", "ValueError: too large")]
    assert found.verdict == "suspicious" and "too large" in found.reason
    both = judged(calls(otherwise(refuses, refuses), SQUARE))
    assert both.verdict == "not comparable" and not both.contracts


def test_a_gradient_that_is_wanted_on_one_side_alone_is_a_broken_contract() -> None:
    x = torch.ones(3, requires_grad=True)
    function = otherwise(lambda x: (x * 2, x * 3), lambda x: (x * 2, (x * 3).detach()))
    found = judged(training(function, x))
    assert [(each.contract, each.place) for each in found.contracts] == [("requires_grad", "output[1]")]


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        (lambda x: x[:1].t() + 1, lambda x: torch.empty_strided((3, 1), (1, 7)).copy_(x[:1].t() + 1)),
        (lambda x: (x + 1)[:0], lambda x: torch.empty(0, 3)),
        (lambda x: (x + 1, object()), lambda x: (x + 1, object())),
        (lambda x: (x + 1, Cache(x.t() * 2)), lambda x: (x + 1, Cache((x.t() * 2).contiguous()))),
    ],
)  # fmt: skip
def test_strides_that_say_nothing_and_objects_that_are_new_each_time_break_no_contract(
    eager: Callable[..., Any], compiled: Callable[..., Any]
) -> None:
    found = judged(calls(otherwise(eager, compiled), SQUARE))
    assert found.verdict == "equal" and not found.contracts


class Counting(torch.nn.Module):
    names: list[str] = []  # noqa: RUF012 - of the class, as users have it.

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.calls, self.seen = where, 0, {"sizes": [0]}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_compiling():
            if self.where == "Counting.names":
                self.names.append("x")
            elif self.where == "calls":
                self.calls += 1
            else:
                self.seen["sizes"].append(1)
        return x + 1


@pytest.mark.parametrize(("where", "place"), [("Counting.names",) * 2, ("calls",) * 2, ("seen",) * 2])
def test_a_side_effect_that_compiling_loses_is_a_broken_contract(where: str, place: str) -> None:
    found = judged(calls(Counting(where), SQUARE))
    assert [(each.contract, each.place) for each in found.contracts] == [("side effect", place)]


def test_a_side_effect_of_a_closure_is_one_too_and_one_that_is_kept_is_none() -> None:
    lost: list[int] = []
    kept: list[int] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(1)
        if not torch.compiler.is_compiling():
            lost.append(1)
        return x + 1

    found = judged(calls(function, SQUARE))
    assert [(each.contract, each.place) for each in found.contracts] == [("side effect", "lost")]


def test_tensors_of_a_closure_are_put_back_and_a_write_that_is_lost_or_made_is_told() -> None:
    counted, lost, made = torch.zeros(2), torch.zeros(2), torch.zeros(2)

    def function(x: torch.Tensor) -> torch.Tensor:
        counted.add_(1)
        compiling = torch.compiler.is_compiling()
        (made if compiling else lost).add_(0)
        return x + counted[0]

    found = judged(calls(function, SQUARE))
    assert found.deterministic and verdicts(found)["output"] == "equal", "each run begins with zeros"
    assert {(each.contract, each.place, each.compiled) for each in found.contracts} == {
        ("side effect", "lost", "is left as it was"), ("side effect", "made", "counts a write"),
    }  # fmt: skip
    assert not counted.any()


def test_data_and_buffers_that_a_call_puts_in_the_place_of_others_are_put_back() -> None:
    class Replaces(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total = self.total + x.sum()
            return x * self.total

    model = Replaces()
    before, weight = model.total, torch.ones(3)

    def gives_other_data(x: torch.Tensor) -> torch.Tensor:
        weight.data = torch.cat([x[0], x[0]]).double()
        return x + 1

    assert judged(calls(model, SQUARE)).verdict == "equal"
    assert model.total is before and not float(before)
    judged(calls(gives_other_data, SQUARE))
    assert weight.tolist() == [1.0, 1.0, 1.0] and weight.dtype is torch.float32


def test_what_eager_does_otherwise_each_time_is_no_contract() -> None:
    drawn = time.perf_counter_ns  # What can be put back, as an iterator, is the same each time.
    found = judged(calls(otherwise(lambda x: (x + 1, drawn()), lambda x: (x + 1, -1)), SQUARE))
    assert found.verdict == "equal" and not found.contracts


class NumberKeeper(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1.0
        return x * 2


def drops_others(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """Dropout by other random numbers, as inductor's are others than eager's."""
    return x * torch.bernoulli(torch.full_like(x, 0.5)) * 2


class BesideZero(torch.nn.Module):
    """What the first `count` of its ReLUs are given lies beside zero: further than eager rounds, nearer than other sums
    may."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(64, 20_000, bias=False), torch.nn.Linear(20_000, 8)
        with torch.no_grad():
            beside = 4e-7 * torch.tensor([1.0, -1.0]).double().repeat(10_000)
            beside[count:] *= 1e5
            self.offset = (torch.ones(64).double() @ self.body.weight.double().T + beside).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(torch.nn.functional.linear(x, self.body.weight) - self.offset))


@pytest.mark.parametrize(
    ("count", "longer", "verdict"),
    [
        (100, 1.0, "rounding only"),
        (20_000, 1.0, "not comparable"),  # So many of its gradients come and go that nothing can be told.
        (60, 1.3, "suspicious"),
        (0, 1.1, "suspicious"),
    ],
)
def test_gradients_that_eager_changes_as_much_by_rounding_are_not_wrong(
    count: int, longer: float, verdict: str
) -> None:
    """Whether a ReLU lets a gradient through hangs on the last bits there; whether it is too long does not."""
    torch.manual_seed(0)
    model, linear = BesideZero(count), torch.nn.functional.linear
    noise = 1 + 7e-7 * (2 * torch.rand(20_000, 64) - 1)

    def otherwise(x: torch.Tensor, weight: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        if weight.shape == noise.shape:
            weight = weight.detach() + longer * (weight - weight.detach()) if longer != 1.0 else weight * noise
        return linear(x, weight, *bias)

    before = [each.clone() for each in model.parameters()]
    assert judged(training(model, torch.ones(4, 64)), replacing(linear, otherwise)).verdict == verdict
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("place", ["own", "shared", "file"])
def test_weights_that_others_have_too_are_not_moved(place: str, tmp_path: Path) -> None:
    model = torch.nn.Linear(16, 16)
    if place == "shared":
        model.share_memory()
    elif place == "file":
        for name, each in model.named_parameters():
            (tmp_path / name).write_bytes(each.detach().numpy().tobytes())
            each.data = torch.from_file(str(tmp_path / name), shared=True, size=each.numel()).view_as(each)
    before = [each.clone() for each in model.parameters()]
    Perturbed(model, model, 16)(torch.ones(1, 16))
    same = all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))
    assert same is (place != "own")


class Sines(torch.nn.Module):
    """Rounds after each operation, in the dtype of its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype = self.scale.dtype
        x = x.to(dtype)
        for _ in range(6):
            x = torch.sin(x) * self.scale
        return x.to(dtype)


class InHalves(Sines):
    """Takes and gives float32, and computes in bfloat16, as autocast does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.sin(x.bfloat16()) * self.scale.bfloat16()
        return x.float()


class InEager(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize(
    ("model", "backend", "verdict"),
    [
        (TwoHeads(), "aot_eager", "equal"),
        (TwoHeads(), replacing(torch.sigmoid, lambda x: torch.sigmoid(x) * 1.01), ""),
        (TwoHeads(), replacing(torch.sigmoid, lambda x: torch.sigmoid(3 * x)), "suspicious"),
        (TwoHeads(), replacing(torch.sigmoid, torch.zeros_like), "suspicious"),
        (TwoHeads(), replacing(torch.sigmoid, lambda x: (torch.sigmoid(x) > 0.5).float()), "suspicious"),
        (InHalves(), replacing(torch.sin, lambda x: (torch.sin(x) * 8).round() / 8), ""),
        (NumberKeeper(), "aot_eager", ""),
        (
            torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5)),
            replacing(torch.nn.functional.dropout, drops_others),
            "",
        ),
        (InEager(), "aot_eager", ""),
        (Sines(), replacing(torch.sin, lambda x: torch.sin(x.double()).float()), "equal"),
        (
            torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16)),
            replacing(torch.nn.functional.linear, lambda x, w, b: (x.double() @ w.double().T + b).float()),
            "equal",
        ),
        (Sines().bfloat16(), replacing(torch.sin, lambda x: torch.sin(x.double())), "benign"),
        (Sines().bfloat16(), replacing(torch.sin, lambda x: (torch.sin(x) * 32).round() / 32), ""),
    ],
    ids=[
        "right", "hardly wrong", "wrong", "zeros", "steps", "in halves within", "keeps a number",
        "draws other numbers", "runs in eager", "rounds in float32", "moves buffers", "rounds less than eager",
        "rounds more than eager",
    ],
)  # fmt: skip
def test_code_that_is_there_is_compared_at_once_and_what_is_not_sure_is_no_answer(
    model: torch.nn.Module, backend: Any, verdict: str
) -> None:
    compiles = Compiles()
    compiles.listen()
    workload, compiled = calls(model, torch.randn(6, 16)), torch.compile(model, backend=backend)
    for step in workload.steps(compiled):
        step.prepare()
        step.run()
    graphs = len(compiles.with_graph)
    answer = accuracy(workload, lambda: compiled, Configuration("tested"), compiled_now=compiles.runs_a_graph)
    assert answer["verdict"] == verdict
    assert len(compiles.with_graph) == graphs or isinstance(model, NumberKeeper)
