"""What the child does with a model that was built: in eager, then compiled, and neither call disturbs the other."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
import torch._dynamo

from dynalyze.capture import libraries, library_target
from dynalyze.capture.events import EagerCall, Ending, Event, ModelBuilt, ObjectCall, ObjectStarted, StageFailed
from dynalyze.capture.inputs import Inputs
from dynalyze.capture.libraries.building import Built, CannotBuild, ModelRequest, built
from dynalyze.capture.library_target import failure_of, texts_of
from dynalyze.capture.settings import CompileOptions, ModelOptions

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Model(torch.nn.Module):
    """Writes into its input, draws random numbers, counts in a buffer, and remembers what it met."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.met: list[Any] = []

    def forward(self, x: torch.Tensor, grown: list[torch.Tensor] | None = None) -> torch.Tensor:
        note(self, x)
        self.calls += 1
        x += 1
        if grown is not None:
            grown.append(x)
        return self.linear(x) + torch.rand(3)


@torch._dynamo.disable
def note(model: Model, x: torch.Tensor) -> None:
    state = (x.tolist(), float(model.calls), torch.get_rng_state().sum().item(), torch.is_grad_enabled())
    model.met.append((*state, model.linear.weight.grad is None, model.training))


def run_of(
    monkeypatch: pytest.MonkeyPatch, model: Any, options: CompileOptions | None = None, **asked: Any
) -> tuple[Ending, list[Event]]:
    """Run a target whose model is `model`; returns how it ended and the events."""
    torch.manual_seed(0)
    given = Built(model, [Inputs((), {"x": torch.zeros(2, 3)})], type(model).__name__, "made", 12)

    def make(request: ModelRequest) -> Built:
        model.train(bool(request.train))
        return given

    monkeypatch.setattr(libraries.library("hf"), "build", make)
    events: list[Event] = []
    request = {"name": "made", "library": "hf", "asked": vars(ModelOptions(**asked))}
    ending = library_target.run(
        request, options or CompileOptions(backend="eager"), events.append, lambda workload, compiled: None
    )
    return ending, events


@pytest.mark.parametrize("train", [False, True])
def test_the_compiled_call_meets_what_the_eager_one_met(monkeypatch: pytest.MonkeyPatch, train: bool) -> None:
    model = Model()
    ending, events = run_of(monkeypatch, model, CompileOptions(backend="eager", train=train))
    assert ending.exit_status == 0
    assert list(map(type, events)) == [ModelBuilt, EagerCall, ObjectStarted, ObjectCall]
    eager, compiled = model.met
    assert eager == compiled
    assert eager[0] == [[0.0] * 3] * 2
    assert eager[3:] == (train, True, train)
    assert (model.linear.weight.grad is not None) is train


def test_only_a_model_that_was_cut_is_called_small() -> None:
    def how(weights: bool = False, **smaller: bool) -> str:
        return library_target.how_built(built(Model(), [], "made", **smaller), weights)

    assert how(is_small=True, has_small_inputs=True).startswith("It was made small, with random weights")
    assert how() == "It has the size of its configuration and random weights."
    assert how(has_small_inputs=True) == f"{how()} Its inputs are small: --full-size keeps their size."
    assert how(weights=True) == "It has the weights of its checkpoint."


def test_nothing_compiles_in_the_eager_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a part that the library compiles by itself."""
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.compile(torch.nn.Linear(3, 3), backend=backend)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise_if(len(compiled) > 0)
            return self.part(x)

    ending, events = run_of(monkeypatch, Own())
    assert EagerCall in map(type, events)
    assert ending.exit_status == 0


def raise_if(wrong: bool) -> None:
    if wrong:
        raise AssertionError("something was compiled")


class Failing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no\nmore")


@pytest.mark.parametrize("cold", [False, True])
def test_a_failure_in_eager_is_told_as_one(monkeypatch: pytest.MonkeyPatch, cold: bool) -> None:
    ending, events = run_of(monkeypatch, Failing(), cold=cold)
    assert ending.exit_status == 1
    failed = events[-1]
    assert isinstance(failed, StageFailed)
    assert (failed.stage, failed.exception, failed.message) == ("eager", "ValueError", "ValueError: no")
    assert failed.file == __file__
    assert not failed.out_of_memory


def no_backend(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("this backend compiles nothing")


@pytest.mark.parametrize("cold", [False, True])
def test_a_failure_of_the_compiled_call_alone_is_none_of_a_stage(monkeypatch: pytest.MonkeyPatch, cold: bool) -> None:
    broken = types.ModuleType("broken_backend")
    broken.backend = no_backend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "broken_backend", broken)
    ending, events = run_of(monkeypatch, Model(), CompileOptions(backend="broken_backend:backend"), cold=cold)
    assert (ending.exit_status, ending.exception) == (1, "BackendCompilerFailed")
    assert StageFailed not in map(type, events)


def test_a_refusal_under_fullgraph_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    class Printing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return x + 1

    ending, events = run_of(monkeypatch, Printing(), CompileOptions(backend="eager", fullgraph=True))
    assert ending.exit_status == 0
    assert isinstance(events[-1], ObjectCall)
    assert events[-1].refused


def test_an_architecture_that_cannot_be_built_names_its_own_line() -> None:
    try:
        try:
            raise ValueError("no heads")
        except ValueError as cause:
            raise CannotBuild("config", "ValueError: no heads") from cause
    except CannotBuild as error:
        failed = failure_of(error, "model")
    assert (failed.stage, failed.exception, failed.message) == ("config", "ValueError", "ValueError: no heads")
    assert failed.file == __file__


def test_the_line_of_the_model_comes_before_that_of_a_helper() -> None:
    raised = error_through(
        "/v/transformers/models/x/modeling_x.py", "/v/transformers/utils/generic.py", "/v/torch/f.py"
    )
    assert failure_of(raised, "eager").file == "/v/transformers/models/x/modeling_x.py"
    helper = error_through("/v/transformers/utils/generic.py", "/v/torch/f.py")
    assert failure_of(helper, "eager").file == "/v/transformers/utils/generic.py"
    other = error_through("/v/timm/layers.py", "/v/torch/f.py")
    assert failure_of(other, "eager").file == "/v/timm/layers.py"


def error_through(*files: str) -> BaseException:
    """An error that passed one function in each file, outermost first."""
    source = "def call(rest):\n    if not rest:\n        raise RuntimeError('x')\n    rest[0](rest[1:])\n"
    calls = []
    for file in files:
        names: dict[str, Any] = {}
        exec(compile(source, file, "exec"), names)
        calls.append(names["call"])
    try:
        calls[0](calls[1:])
    except RuntimeError as error:
        return error
    raise AssertionError


def test_inputs_as_texts() -> None:
    def model(x: torch.Tensor, *more: torch.Tensor, flag: bool, **rest: object) -> None: ...

    inputs = Inputs(
        (torch.zeros(2), torch.zeros(4)),
        {
            "ids": torch.zeros(2, 16, dtype=torch.int64), "pictures": [torch.zeros(3), torch.zeros(3)], "flag": True,
            "mixed": [torch.zeros(3), None], "scalar": torch.tensor(1.0, dtype=torch.bfloat16), "long": "x" * 99,
        },
    )  # fmt: skip
    assert texts_of(inputs, model) == {
        "x": "float32[2]", "1": "float32[4]", "ids": "int64[2, 16]", "pictures": "2 of float32[3]", "flag": "True",
        "mixed": "list of 2", "scalar": "bfloat16[]", "long": "str",
    }  # fmt: skip
