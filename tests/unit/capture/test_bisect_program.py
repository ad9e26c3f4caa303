"""The reduction of a graph that is wrong: what stays is what the fault needs, whatever the fault is."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynalyze.capture.bench.bisect_program import Program, own_memory, program_of, reduced


def traced(function: Callable[..., Any], *inputs: Any, train: bool = False) -> Program:
    """The program of a function, whose result becomes a tuple as Dynamo's are."""
    graph = torch.fx.symbolic_trace(function)
    return program_of(graph, inputs, train=train)


def smallest(program: Program, is_wrong: Callable[[Program], bool]) -> Program:
    assert is_wrong(program)
    return reduced(program, is_wrong, time.monotonic() + 60)[0]


def names(program: Program) -> list[str]:
    calls = [node for node in program.graph.graph.nodes if node.op.startswith("call_")]
    return [str(getattr(node.target, "__name__", node.target)) for node in calls]


def runs(program: Program) -> bool:
    program.graph.forward(*map(own_memory, program.inputs))
    return True


def test_two_operations_that_are_wrong_one_after_the_other_are_all_that_stays() -> None:
    """As a fusion: of six operations, and of a size that has to be three at least."""

    def function(x: Any, y: Any) -> Any:
        hidden = torch.relu(x @ y)
        summed = torch.exp(hidden) + hidden
        return torch.tanh(summed * 2), hidden

    def is_wrong(program: Program) -> bool:
        calls = [node for node in program.graph.graph.nodes if node.op.startswith("call_")]
        pairs = [(node.all_input_nodes[0].target, node.target) for node in calls]
        wide = all(value.shape[-1] >= 3 for value in program.inputs)
        return runs(program) and (torch.exp, operator.add) in pairs and wide

    small = smallest(traced(function, torch.randn(64, 32), torch.randn(32, 64)), is_wrong)
    assert names(small) == ["exp", "add"]
    # 64 and 32 are sizes of their own: the first matrix is 64 by 64 once the product is an input.
    assert [tuple(value.shape) for value in small.inputs] == [(4, 4)]


def test_what_eager_refuses_is_kept_without_what_comes_after_it() -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.relu(torch.cat([torch.sin(x), y], 1) + 1)

    def is_refused(program: Program) -> bool:
        try:
            return not runs(program)
        except RuntimeError as error:
            return "Sizes of tensors" in str(error)

    small = smallest(traced(function, torch.randn(4, 8), torch.randn(5, 8)), is_refused)
    assert names(small) == ["cat"]
    # Sizes are made smaller as long as they are not the same.
    assert [tuple(value.shape) for value in small.inputs] in ([(2, 1), (1, 1)], [(1, 1), (2, 1)])


def test_what_writes_is_kept_where_its_write_is_needed() -> None:
    def function(x: Any) -> Any:
        made = x * 3
        made.add_(1)
        torch.sin(x).mul_(0)
        return torch.cos(made)

    def is_wrong(program: Program) -> bool:
        before = [own_memory(value) for value in program.inputs]
        given = program.graph.forward(*before)[0]
        # One more than something that is an input, or a multiple of one.
        return {"add_", "cos"} <= set(names(program)) and bool(given.numel())

    assert names(smallest(traced(function, torch.randn(4)), is_wrong)) == ["add_", "cos"]


def test_constants_of_a_graph_are_inputs_and_gradients_are_asked_for_as_they_were() -> None:
    module = torch.nn.Module()
    module.scale = torch.full((3,), 2.0)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.mul, (graph.get_attr("scale"), x)))
    program = program_of(torch.fx.GraphModule(module, graph), [torch.ones(3, requires_grad=True)], train=True)
    (given,) = program.graph.forward(*program.inputs)
    assert given.tolist() == [2.0, 2.0, 2.0] and given.requires_grad
    assert [value.requires_grad for value in program.inputs] == [True, False]


@pytest.mark.parametrize(
    "value",
    [torch.arange(6.0).reshape(2, 3).t(), torch.arange(3.0).expand(4, 3), torch.arange(12.0)[::2], torch.ones(0, 3)],
)
def test_memory_of_its_own_with_the_strides_that_it_had(value: torch.Tensor) -> None:
    made = own_memory(value)
    assert torch.equal(made, value) and made.stride() == value.stride()
    assert not made.numel() or made.untyped_storage().data_ptr() != value.untyped_storage().data_ptr()
