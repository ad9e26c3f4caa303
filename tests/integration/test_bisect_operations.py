"""The judge of single operations: faults drawn at random over operations, layers and stages are found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from accuracy_runs import calls, judged, training
from bisect_models import blocks
from planted_backends import InAten, InGraph, other_order, wrong_decomposition, wrong_where_fused

from dynalyze.capture.bench.bisect import Bisector
from dynalyze.capture.bench.commands import BISECT_SCRIPT
from dynalyze.capture.bench.protocol import Configuration

# Importing Inductor warns on this torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning"),
    pytest.mark.usefixtures("fresh_dynamo"),
]

_LAYERS = 4
# Each operation of a block: its name in Dynamo's graph and in ATen's, how it is called in a program, how often it comes
# in a block, and the modules of these.
_OPERATIONS = (
    ("linear", "aten.addmm.default", "torch.nn.functional.linear",
     ("attention.query", "attention.key", "attention.value", "up", "down")),
    ("softmax", "aten._softmax.default", "torch.softmax", ("attention",)),
    ("gelu", "aten.gelu.default", "torch.nn.functional.gelu", ("",)),
    ("layer_norm", "", "torch.nn.functional.layer_norm", ("norm",)),
    ("truediv", "aten.div.Tensor", "operator.truediv", ("attention",)),
    ("matmul", "aten.bmm.default", "operator.matmul", ("attention", "attention")),
    ("add", "aten.add.Tensor", "operator.add", ("", "")),
)  # fmt: skip


def searched(model: Any, x: Any, backend: Any, stage: str = "backend") -> dict[str, Any]:
    """The answer to the step `operations`; `backend` is a name, or a function that stands in for one of a module."""
    name = backend if isinstance(backend, str) else f"{__name__}:planted"
    _planted[:] = [backend]
    bisector = Bisector(calls(model, x), Configuration("tested", backend=name), "cpu")
    return bisector.operations(stage)


_planted: list[Any] = []


def planted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    return _planted[0](graph, inputs)


def _drawn(seed: int, level: int = 0) -> tuple[Any, int, str]:
    """An operation that has a name at this level, which one of its kind, and the path of its module."""
    draw = random.Random(seed)
    operation = draw.choice([operation for operation in _OPERATIONS if operation[level]])
    layer, place = draw.randrange(_LAYERS), draw.randrange(len(operation[3]))
    module = f"layers.{layer}.{operation[3][place]}".rstrip(".")
    return operation, layer * len(operation[3]) + place, module


def _check(answer: dict[str, Any], operation: Any, module: str) -> None:
    fault = answer["fault"]
    assert fault is not None
    assert (fault["op"], fault["module"]) == (operation[2], module)
    assert fault["file"].endswith("bisect_models.py") or module.endswith(
        ("norm", "query", "key", "value", "up", "down")
    )
    assert fault["line"] and fault["compiled_rmse"] > 3 * (fault["eager_rmse"] or 0)


@pytest.mark.parametrize("seed", range(2))
def test_an_operation_off_by_three_roundings_is_named_in_its_layer(seed: int) -> None:
    operation, occurrence, module = _drawn(seed)
    backend = InGraph(operation[0], occurrence)
    answer = searched(*blocks(_LAYERS), backend)
    assert backend.planted == 1
    _check(answer, operation, module)


def test_the_answers_themselves_hide_such_an_operation() -> None:
    """Why every operation is judged: the layers behind it round more than that."""
    assert judged(calls(*blocks(_LAYERS)), InGraph("linear", 7)).verdict == "benign"


@pytest.mark.parametrize("seed", [10])
def test_an_operation_of_aten_is_named_by_the_line_it_comes_from(seed: int) -> None:
    operation, occurrence, module = _drawn(seed, 1)
    backend = InAten(operation[1], occurrence)
    answer = searched(*blocks(_LAYERS), backend)
    assert backend.planted == 1
    _check(answer, operation, module)


def test_what_is_inside_of_a_vmap_is_left_alone() -> None:
    class Mapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scaled = torch.vmap(lambda one: one * one.sum())(self.inner(x))
            return torch.tanh(scaled) + 1

    answer = searched(Mapped(), torch.randn(4, 8), "aot_eager", "aot_autograd")
    assert answer["fault"] is None and answer["judged"] >= 2 and not answer["problems"]


def test_other_orders_of_adding_up_are_not_called_wrong() -> None:
    model, x = blocks(_LAYERS)
    answer = searched(model, x, other_order)
    assert answer["fault"] is None and answer["judged"] > 50 and not answer["problems"]
    assert judged(calls(model, x), other_order).verdict in ("equal", "benign")


def test_a_decomposition_that_makes_nan_is_found_in_its_stage_alone() -> None:
    def broken(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return torch.sqrt(x)

    with wrong_decomposition(torch.ops.aten.gelu.default, broken):
        before = searched(*blocks(2), "aot_eager", "aot_autograd")
        answer = searched(*blocks(2), "inductor", "decompositions")
    assert before["fault"] is None
    fault = answer["fault"]
    assert (fault["op"], fault["module"]) == ("torch.nn.functional.gelu", "layers.0")
    assert fault["nonfinite"] > 0 and "NaN" in fault["why"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_nothing_is_wrong_with_the_decompositions_of_torch(dtype: torch.dtype) -> None:
    """The last of them; test_bisect_clean.py has the one before."""
    model, x = blocks(2)
    answer = searched(model.to(dtype), x.to(dtype), "inductor", "decompositions")
    assert answer["fault"] is None and answer["judged"] > 20 and not answer["problems"]


@pytest.mark.slow
def test_a_fault_of_two_operations_together_is_reduced_to_these(tmp_path: Path) -> None:
    """None is wrong by itself: where their values are looked at, nothing is fused."""
    model, x = blocks(2)
    assert searched(model, x, wrong_where_fused)["fault"] is None
    bisector = Bisector(calls(model, x), Configuration("tested", backend=f"{__name__}:planted"), "cpu")
    answer = bisector.script("backend", str(tmp_path), 300.0)
    reduced, place = answer["reduced"], answer["place"]
    assert (place["op"], place["module"]) == ("torch.nn.functional.gelu", "layers.0")
    assert place["file"].endswith("bisect_models.py") and place["line"]
    assert (reduced["operations"], reduced["elements"]) == (2, 3), "a linear layer of one weight and one bias, and gelu"
    assert reduced["operations_before"] > 20 and reduced["elements_before"] > 50_000 and reduced["tried"]
    script = (tmp_path / BISECT_SCRIPT).read_text()
    assert "nn.functional.gelu" in script and f"{reduced['elements_before']:,} elements" in script


def test_a_wrong_backward_is_reduced_to_the_operation_that_it_belongs_to(tmp_path: Path) -> None:
    _planted[:] = [InAten("aten._softmax_backward_data.default", 0, lambda found: found * 1.5, backward=True)]
    workload = training(*blocks(1))
    bisector = Bisector(workload, Configuration("tested", backend=f"{__name__}:planted"), "cpu")
    assert bisector.operations("backend")["fault"] is None, "every value is right"
    answer = bisector.script("backend", str(tmp_path), 300.0)
    assert (answer["place"]["op"], answer["place"]["module"]) == ("torch.softmax", "layers.0.attention")
    assert answer["reduced"]["operations"] <= 2


def test_what_is_right_is_not_reduced(tmp_path: Path) -> None:
    model, x = blocks(1)
    bisector = Bisector(calls(model, x), Configuration("tested", backend="aot_eager"), "cpu")
    answer = bisector.script("aot_autograd", str(tmp_path), 300.0)
    assert answer == {"reduced": None, "place": None, "script": False}
