"""Lets a graph of Dynamo tell the gradients that flow through it: each operation's own, and what it passes on.

A probe is one more input of the graph. It stands beside a value where an operation uses it, changes nothing on the way
forward, and gets the gradient that this operation alone passes back to that value, whatever compiles the graph and
however. A value that several operations use has a probe of its own too, for the sum of what they pass back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.bench.bisect_taps import Tapped, transformed, writes
from dynalyze.capture.torch_private import numerics

_MOST_BYTES = 2 << 30
# What fills buffers on the way and leaves the values that gradients flow through alone.
_LEAVES_VALUES = ("batch_norm", "instance_norm")
# What changes the modes that all after it runs under: an operation alone would not be under them.
_MODES = ("_enter_autocast", "_exit_autocast")

Use = tuple[str, str]
"""A value, and the operation that uses it; "" for the value itself, with all of its uses."""


@dataclass
class Probed:
    """`tapped.graph` takes the probes after its own inputs, in the order of `probes`.

    `reason` says why there are none although gradients flow.
    """

    tapped: Tapped
    probes: dict[Use, torch.fx.Node] = field(default_factory=dict)
    reason: str = ""

    def fresh(self) -> list[torch.Tensor]:
        """New probes, which want gradients."""
        return [_probe_for(numerics.value_of(probe)) for probe in self.probes.values()]

    def gradient_of(self, node: torch.fx.Node, gradients: dict[Use, torch.Tensor]) -> torch.Tensor | None:
        """The gradient that the operation gets for its result."""
        return next((gradients[use] for use in _uses_of(node) if use in gradients), None)


def probed(tapped: Tapped) -> Probed:
    """Puts probes into `tapped.graph`, where gradients flow through the graph and nothing stands against it."""
    original = tapped.original
    flowing = [node for node in original.graph.nodes if node.op != "output" and _flows(node)]
    if not flowing:
        return Probed(tapped)
    if reason := _reason_against(original, flowing):
        return Probed(tapped, reason=reason)
    return _Probing(tapped).made(flowing)


class _Probing:
    def __init__(self, tapped: Tapped) -> None:
        self._graph = tapped.graph.graph
        self._nodes = {node.name: node for node in self._graph.nodes}
        self._last = [node for node in self._graph.nodes if node.op == "placeholder"][-1]
        self._made = Probed(tapped)

    def made(self, flowing: list[torch.fx.Node]) -> Probed:
        for node in flowing:
            self._of_uses(node)
            if node.op != "placeholder" and not _is_used_once(node):
                self._of_value(node)
        self._made.tapped.graph.recompile()
        return self._made

    def _of_uses(self, node: torch.fx.Node) -> None:
        value = self._nodes[node.name]
        for user in node.users:
            if user.op == "output":
                continue
            mine = self._nodes[user.name]
            with self._graph.inserting_before(mine):
                mine.replace_input_with(value, self._watched(value, (node.name, user.name), node))

    def _of_value(self, node: torch.fx.Node) -> None:
        value = self._nodes[node.name]
        with self._graph.inserting_after(value):
            made = self._watched(value, (node.name, ""), node)
        value.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)

    def _watched(self, value: torch.fx.Node, use: Use, node: torch.fx.Node) -> torch.fx.Node:
        made = self._graph.call_function(beside, (value, self._probe(use, node)))
        made.meta.update({key: item for key, item in node.meta.items() if key in ("example_value", "stack_trace")})
        return made

    def _probe(self, use: Use, node: torch.fx.Node) -> torch.fx.Node:
        with self._graph.inserting_after(self._last):
            probe = self._graph.placeholder(f"probe_{len(self._made.probes)}")
        probe.meta["example_value"] = numerics.value_of(node)
        self._last = self._made.probes[use] = probe
        return probe


def _uses_of(node: torch.fx.Node) -> list[Use]:
    return [(node.name, ""), *((node.name, user.name) for user in node.users)]


def _is_used_once(node: torch.fx.Node) -> bool:
    """By one operation: what this passes back is all that the value gets."""
    return len(node.users) == 1 and next(iter(node.users)).op != "output"


def _flows(node: torch.fx.Node) -> bool:
    value = numerics.value_of(node)
    return (
        isinstance(value, torch.Tensor)
        and value.requires_grad
        and value.is_floating_point()
        and value.layout is torch.strided
    )


def _reason_against(graph: torch.fx.GraphModule, flowing: list[torch.fx.Node]) -> str:
    if transformed(graph):
        return "the graph holds a transform of torch.func"
    if not any(node.op == "placeholder" for node in graph.graph.nodes):
        return "the graph has no inputs"
    for node in graph.graph.nodes:
        name = str(getattr(node.target, "__name__", node.target))
        if name in _MODES or (writes(node) and not _leaves_values(node, name)):
            return f"the graph holds {name.lstrip('_')}"
    sizes = [
        (numerics.value_of(node).numel() * numerics.value_of(node).element_size(), len(node.users)) for node in flowing
    ]
    if not all(isinstance(size, int) for size, _ in sizes):
        return "its sizes are known only when it runs"
    if sum(size * (uses + 1) for size, uses in sizes) > _MOST_BYTES:
        return "they are too large to keep"
    return ""


def _leaves_values(node: torch.fx.Node, name: str) -> bool:
    """Whether what it writes is only a statistic, or a counter."""
    written = [numerics.value_of(used) for used in node.all_input_nodes[:1]]
    counts = any(isinstance(value, torch.Tensor) and not value.is_floating_point() for value in written)
    return counts or any(known in name for known in _LEAVES_VALUES)


class _Beside(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(_: Any, value: torch.Tensor, probe: torch.Tensor) -> torch.Tensor:
        return value.view_as(value)

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gradient, gradient


def beside(value: torch.Tensor, probe: torch.Tensor) -> torch.Tensor:
    """The value itself, whose gradient the probe gets as well."""
    made: torch.Tensor = _Beside.apply(value, probe)
    return made


def _probe_for(value: torch.Tensor) -> torch.Tensor:
    """As large as a value, and takes no memory."""
    return torch.zeros((), dtype=value.dtype, device=value.device).expand(tuple(value.shape)).requires_grad_()
