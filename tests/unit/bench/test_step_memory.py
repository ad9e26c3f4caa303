"""What a training step keeps: seen in this process against torch itself, and made into lines on answers by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest
import torch
from functorch.compile import min_cut_rematerialization_partition, nop
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from dynalyze.bench.step_memory import memory_of
from dynalyze.capture.bench.call_workload import CallsWorkload, TrainWorkload
from dynalyze.capture.bench.commands import MeasuredStep, MeasuredSteps, SavedForBackward
from dynalyze.capture.bench.memory import step_memory
from dynalyze.capture.inputs import Inputs
from dynalyze.report.measurements import StepMemory
from records import graphs_run

ROWS, WIDTH, HIDDEN = 16, 8, 32
KEPT = ROWS * HIDDEN * 4
MODEL = "/home/ada/model.py"


class Chain(nn.Module):
    """Of ROWS x HIDDEN floats eager keeps: relu's result (for itself, sin and cos), exp's (for itself and the product),
    cos's (for the product), and the product (for the second layer). The first layer keeps its input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        h = torch.sin(h).exp() * torch.cos(h)
        return self.second(h)


class Stashing(torch.autograd.Function):
    """Keeps a tensor where no hook sees it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = x.exp()
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * 2


class Stashes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = Stashing.apply(self.weight + x)  # type: ignore[no-untyped-call]
        return result


def measured(model: nn.Module, target: Any = None, calls: int = 1) -> list[MeasuredStep]:
    inputs = [Inputs((torch.randn(ROWS, WIDTH),), {}) for _ in range(calls)]
    steps = TrainWorkload(CallsWorkload(model, inputs, phase="forward", grad=True)).steps(
        model if target is None else target
    )
    for step in steps:
        step.prepare()
        step.run()
    return step_memory(steps, model, "cpu", compiled=target is not None)


def kept(step: MeasuredStep) -> list[int]:
    return [each.bytes for each in step.saved if each.bytes]


def test_eager_keeps_what_its_operations_need_in_backward() -> None:
    model = Chain()
    (step,) = measured(model)
    assert kept(step) == [KEPT] * 4, "each once, without the input and the parameters"
    relu, exp, cos, product = [each for each in step.saved if each.bytes]
    assert {each.place[0] for each in (relu, exp, cos, product) if each.place} == {__file__}
    lines = [each.place[1] for each in (relu, exp, cos, product) if each.place]
    assert lines == [lines[0], *[lines[0] + 1] * 3], "where each was made"
    assert [each.op for each in (relu, exp, cos, product)] == ["aten.relu", "aten.exp", "aten.cos", "aten.mul"]
    # Torch itself: what the nodes of the graph hold.
    x = torch.randn(ROWS, WIDTH)
    node = model(x).grad_fn
    held = {node._saved_mat1.untyped_storage().data_ptr()}
    product_node = node.next_functions[1][0]
    held |= {getattr(product_node, name).untyped_storage().data_ptr() for name in ("_saved_self", "_saved_other")}
    held.add(product_node.next_functions[1][0]._saved_self.untyped_storage().data_ptr())
    assert len(held) == 4


def test_a_tensor_on_the_context_of_a_function_is_kept_too() -> None:
    (step,) = measured(Stashes())
    assert kept(step) == [ROWS * WIDTH * 4]


def test_a_compiled_step_keeps_what_its_autograd_function_holds() -> None:
    torch._dynamo.reset()
    model = Chain()
    compiled = torch.compile(
        model, backend=aot_autograd(fw_compiler=nop, partition_fn=min_cut_rematerialization_partition)
    )
    (step,) = measured(model, compiled)
    node = compiled(torch.randn(ROWS, WIDTH)).grad_fn
    parameters = {each.data_ptr() for each in model.parameters()}
    held = [each for each in node.saved_tensors if each.data_ptr() not in parameters]
    assert [each.shape for each in step.saved] == [list(each.shape) for each in node.saved_tensors]
    assert {each.graph for each in step.saved} == {0}
    assert sum(kept(step)) == sum(each.nbytes for each in held) - ROWS * WIDTH * 4, "without the input"
    assert sum(kept(step)) < 4 * KEPT, "some of a chain of cheap operations is computed again"


def test_hooks_compile_nothing_anew() -> None:
    torch._dynamo.reset()
    model = Chain()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    measured(model, torch.compile(model, backend=counter), calls=2)
    assert counter.frame_count == 1


# From answers to lines.

FORWARD = """class GraphModule(torch.nn.Module):
    def forward(self, primals_1: "f32[4, 8][8, 1]cpu", primals_2: "f32[s77, 8][8, 1]cpu"):
        # File: /home/ada/model.py:12 in forward, code: h = torch.sin(self.a(x))
        mm: "f32[s77, 4][4, 1]cpu" = torch.ops.aten.mm.default(primals_2, permute)
        sin: "f32[s77, 4][4, 1]cpu" = torch.ops.aten.sin.default(mm)

        # File: /home/ada/model.py:13 in forward, code: return h.t().exp()
        permute_1: "f32[4, s77][1, 4]cpu" = torch.ops.aten.permute.default(sin, [1, 0])
        exp: "f32[4, s77][1, 4]cpu" = torch.ops.aten.exp.default(permute_1)
        return (exp, primals_2, mm, s77)
"""
BACKWARD = """class GraphModule(torch.nn.Module):
    def forward(self, s77: "Sym(s77)", primals_2: "f32[s77, 8][8, 1]cpu", mm: "f32[s77, 4]", tangents_1: "f32[4, s77]"):
        # File: /home/ada/model.py:12 in forward, code: h = torch.sin(self.a(x))
        sin: "f32[s77, 4][4, 1]cpu" = torch.ops.aten.sin.default(mm)

        # File: /home/ada/model.py:13 in forward, code: return h.t().exp()
        permute_1: "f32[4, s77][1, 4]cpu" = torch.ops.aten.permute.default(sin, [1, 0])
        exp: "f32[4, s77][1, 4]cpu" = torch.ops.aten.exp.default(permute_1)
        mul: "f32[4, s77][1, 4]cpu" = torch.ops.aten.mul.Tensor(tangents_1, exp)
        return (None, mul)
"""
RUN = (("dynamo", FORWARD), ("forward", FORWARD), ("backward", BACKWARD))


def saved(size: int, shape: list[int], line: int = 0, graph: int | None = None) -> SavedForBackward:
    return SavedForBackward(size, "float32", shape, (MODEL, line, "forward") if line else None, graph=graph)


def answer(*tensors: SavedForBackward, peak: int = 100) -> MeasuredSteps:
    return MeasuredSteps([MeasuredStep(list(tensors), peak, "backward")])


def lines(found: StepMemory | None) -> dict[int | None, tuple[int, int, list[str]]]:
    assert found is not None
    return {
        each.place.line if each.place else None: (each.eager_bytes, each.compiled_bytes, each.recomputed)
        for each in found.lines
    }


EAGER = answer(saved(0, [2, 8], 12), saved(32, [2, 4], 12), saved(64, [4, 4], 13), peak=200)
OF_GRAPH = (saved(0, [2, 8], graph=0), saved(32, [2, 4], graph=0))


def test_a_line_has_what_both_keep_and_what_is_computed_again() -> None:
    found = memory_of(EAGER, answer(*OF_GRAPH), graphs_run(*RUN))
    assert found is not None
    assert (found.eager_kept, found.compiled_kept, found.eager_peak, found.compiled_peak) == (96, 32, 200, 100)
    assert lines(found) == {13: (64, 0, ["aten.exp"]), 12: (32, 32, ["aten.sin"])}
    assert [each.op for line in found.lines for each in line.compiled] == ["aten.mm"]


@pytest.mark.parametrize("shape", [[2, 5], [2]])
def test_a_graph_that_no_text_fits_has_no_lines(shape: list[int]) -> None:
    found = memory_of(EAGER, answer(saved(32, shape, graph=0)), graphs_run(*RUN))
    assert lines(found)[None] == (0, 32, [])
    assert lines(found)[12] == (32, 0, [])


def test_the_largest_step_in_eager_is_the_one_that_is_told() -> None:
    small, large = answer(saved(8, [2], 12)), answer(saved(80, [20], 14))
    eager, compiled = small.steps + large.steps, large.steps + small.steps
    found = memory_of(MeasuredSteps(eager), MeasuredSteps(compiled), graphs_run())
    assert found is not None and (found.eager_kept, found.compiled_kept) == (80, 8)


def test_a_step_that_failed_says_why() -> None:
    failed = MeasuredSteps(problem="out of memory")
    assert memory_of(EAGER, failed, graphs_run()) == memory_of(failed, EAGER, graphs_run())
    assert memory_of(EAGER, failed, graphs_run()) == StepMemory(problem="out of memory")


def test_the_answer_of_the_child_is_what_the_parent_reads() -> None:
    steps = msgspec.convert({"steps": [asdict(each) for each in measured(Chain())]}, MeasuredSteps)
    found = memory_of(steps, steps, graphs_run())
    assert found is not None and found.eager_kept == found.compiled_kept == 4 * KEPT


def test_a_tensor_that_a_module_was_given_is_told_with_what_made_it() -> None:
    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, HIDDEN)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h: torch.Tensor = self.layer(x)
            h = h.view(-1).relu_()
            return h.square()

    (step,) = measured(Squared())
    ((own, op),) = [(each.module, each.op) for each in step.saved if each.bytes]
    assert (own, op) == ("", "aten.relu_"), "written in place, and kept once for relu and square"
    (linear,) = [each for each in measured(nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.GELU()))[0].saved if each.bytes]
    assert (linear.module, linear.op) == ("0", "aten.addmm")


def test_where_torch_names_its_graphs_otherwise_what_they_keep_is_of_the_line_that_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch._dynamo.reset()
    model = Chain()
    monkeypatch.setattr("dynalyze.capture.torch_private.compiled_code.BACKWARD_NODE", "Renamed")
    (step,) = measured(model, torch.compile(model, backend="aot_eager"))
    assert kept(step) and {each.graph for each in step.saved} == {None}
    found = memory_of(*[MeasuredSteps([step])] * 2, graphs_run(*RUN))
    assert found is not None and found.compiled_kept == sum(kept(step))
