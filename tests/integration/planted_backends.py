"""Faults to be planted: backends that compute one operation wrong, and one that is only different.

Wrong is three times the rounding error: the result moves by three units of rounding, one way or the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

Run = Callable[..., Any]
Wrong = Callable[[Any], Any]


def three_roundings(result: Any) -> Any:
    """Each element moved by three units of rounding, by chance up or down; of several results the first is moved."""
    if isinstance(result, tuple):
        return (three_roundings(result[0]), *result[1:])
    unit = torch.finfo(result.dtype).eps / 2
    generator = torch.Generator().manual_seed(result.numel())
    signs = torch.randint(0, 2, result.shape, generator=generator) * 2 - 1
    return (result.double() * (1 + 3 * unit * signs)).to(result.dtype)


class InGraph:
    """A backend that gets the graph of Dynamo and runs it in eager, but for one operation of it."""

    def __init__(self, name: str, occurrence: int, wrong: Wrong = three_roundings) -> None:
        self._name, self._occurrence, self._wrong = name, occurrence, wrong
        self.planted = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Run:
        self.planted += _planted(graph, self._name, self._occurrence, self._wrong)
        return graph.forward  # type: ignore[no-any-return]


class InAten:
    """A backend that lets AOTAutograd make graphs of ATen, and runs these in eager, but for one operation.

    With `backward` that is one of the graph of the way back.
    """

    def __init__(self, name: str, occurrence: int, wrong: Wrong = three_roundings, *, backward: bool = False) -> None:
        self._name, self._occurrence, self._wrong = name, occurrence, wrong
        self.planted = 0
        right: Run = lambda graph, _: _boxed(graph)  # noqa: E731
        ways = (right, self._compile) if backward else (self._compile, right)
        self._backend = aot_autograd(fw_compiler=ways[0], bw_compiler=ways[1])

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Run:
        return self._backend(graph, inputs)  # type: ignore[no-any-return]

    def _compile(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Run:
        self.planted += _planted(graph, self._name, self._occurrence, self._wrong)
        return _boxed(graph)


def other_order(graph: torch.fx.GraphModule, inputs: list[Any]) -> Run:
    """A backend that adds up what matrix products add up in another order: in eight parts, the last one first."""
    for node in graph.graph.nodes:
        if getattr(node.target, "__name__", "") == "linear":
            node.target = _linear_in_parts
    graph.recompile()
    return graph.forward  # type: ignore[no-any-return]


@contextlib.contextmanager
def wrong_decomposition(operation: Any, wrong: Callable[..., Any]) -> Iterator[None]:
    """Inductor's table takes this operation apart into something else."""
    from torch._inductor import decomposition

    before = decomposition.decompositions.get(operation)
    decomposition.decompositions[operation] = wrong
    try:
        yield
    finally:
        if before is None:
            del decomposition.decompositions[operation]
        else:
            decomposition.decompositions[operation] = before


def _planted(graph: torch.fx.GraphModule, name: str, occurrence: int, wrong: Wrong) -> int:
    """Make the operation of this name wrong; returns how many were."""
    found = [node for node in graph.graph.nodes if node.op.startswith("call_") and _name(node) == name]
    for node in found[occurrence : occurrence + 1]:
        with graph.graph.inserting_after(node):
            moved = graph.graph.call_function(wrong, (node,))
        node.replace_all_uses_with(moved, delete_user_cb=lambda user: user is not moved)  # noqa: B023
    graph.recompile()
    return len(found[occurrence : occurrence + 1])


def _name(node: torch.fx.Node) -> str:
    return str(node.target if isinstance(node.target, (str, torch._ops.OpOverload)) else node.target.__name__)


def _boxed(graph: torch.fx.GraphModule) -> Run:
    from functorch.compile import make_boxed_func

    return make_boxed_func(graph.forward)  # type: ignore[no-any-return]


def _linear_in_parts(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    parts = zip(x.float().chunk(8, -1), weight.float().chunk(8, -1), strict=True)
    total = sum((one @ other.mT for one, other in reversed(list(parts))), torch.zeros(()))
    return (total if bias is None else total + bias.float()).to(x.dtype)


def wrong_where_fused(graph: torch.fx.GraphModule, inputs: list[Any]) -> Run:
    """A backend that computes gelu wrong where it alone uses what a linear layer gives, as a wrong fusion would."""
    for node in list(graph.graph.nodes):
        users = list(node.users)
        called = node.op.startswith("call_") and all(user.op.startswith("call_") for user in users)
        if called and _name(node) == "linear" and [_name(user) for user in users] == ["gelu"]:
            with graph.graph.inserting_after(users[0]):
                doubled = graph.graph.call_function(torch.mul, (users[0], 2))
            users[0].replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)  # noqa: B023
    graph.recompile()
    return graph.forward  # type: ignore[no-any-return]
