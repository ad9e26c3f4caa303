"""Graphs of Dynamo that show what happens in them: the value of every operation, and the gradients that flow back.

Values: a copy of each is added to the outputs of the graph before a backend compiles it, so that the values are those
of the compiled code. Where a graph writes into tensors, a value has versions: it is copied anew before it is used after
a write.

Gradients: a probe is one more input of the graph. It stands beside a value where an operation uses it, changes nothing
on the way forward, and gets the gradient that this operation alone passes back to that value, whatever compiles the
graph and however. A value that several operations use has a probe of its own too, for the sum of what they pass back.
"""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass, field
from typing import Any

import torch

from dynalyze.capture.torch_private import numerics

_MOST_BYTES = 2 << 30
_WRITING = {operator.setitem} | {
    getattr(operator, f"i{name}")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul")
}
# Functions whose last argument says whether they write into their input.
_INPLACE_LAST = {
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid",
    "threshold", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
}  # fmt: skip
_META = ("example_value", "stack_trace")
# What fills buffers on the way, and leaves the values that gradients flow through alone.
_STATISTICS = ("batch_norm", "instance_norm")

Tap = tuple[str, int]
"""The name of a node, and how often the graph has written before the value was copied."""
# What changes the modes that all after it runs under: an operation alone would not be under them.
_MODES = ("_enter_autocast", "_exit_autocast")

Use = tuple[str, str]
"""A value, and the operation that uses it; "" for the value itself, with all of its uses."""


@dataclass
class Tapped:
    """`graph` gives what `original` gives and then its values: `taps` says which place of the outputs has which.

    `version` is that of each node: how many writes there are before it. `cut` counts the operations whose values were
    too large to keep. `transformed` names the nodes inside of a torch.vmap, jvp or grad: their values exist only there.
    """

    original: torch.fx.GraphModule
    graph: torch.fx.GraphModule
    taps: dict[Tap, int] = field(default_factory=dict)
    version: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    transformed: frozenset[str] = frozenset()


def tapped(original: torch.fx.GraphModule) -> Tapped:
    """The graph with its values among its outputs."""
    nodes = [node for node in original.graph.nodes if node.op != "output"]
    any_writes = any(map(writes, nodes))
    graph = torch.fx.Graph()
    found = Tapped(original, original, transformed=transformed(original))
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    taps: dict[Tap, torch.fx.Node] = {}
    written = nbytes = 0

    def tap(node: torch.fx.Node) -> None:
        nonlocal nbytes
        key, value = (node.name, written), numerics.value_of(node)
        is_plain = isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized
        if key in taps or not is_plain or node.name in found.transformed:
            return
        with contextlib.suppress(Exception):  # A size that is known only when the graph runs.
            nbytes += int(value.numel() * value.element_size())
        if nbytes > _MOST_BYTES:
            found.cut += 1
            return
        alone = graph.call_method("detach", (copies[node],))
        copied = taps[key] = graph.call_method("clone", (alone,))
        for made in (alone, copied):
            made.meta.update({name: node.meta[name] for name in _META if name in node.meta})

    for node in nodes:
        for used in node.all_input_nodes if any_writes else ():
            tap(used)
        found.version[node.name] = written
        copies[node] = graph.node_copy(node, lambda used: copies[used])
        if writes(node):
            written += 1
            for used in node.all_input_nodes[:1]:
                tap(used)
        if node.op not in ("placeholder", "get_attr"):
            tap(node)
    own = [copies[item] if isinstance(item, torch.fx.Node) else item for item in outputs_of(original)]
    graph.output((*own, *taps.values()))
    found.graph = torch.fx.GraphModule(original, graph)
    found.graph.meta = original.meta
    found.taps = {key: len(own) + number for number, key in enumerate(taps)}
    return found


def transformed(graph: torch.fx.GraphModule) -> frozenset[str]:
    """The nodes between the begin and the end of a transform of torch.func, these two included."""
    found, depth = [], 0
    for node in graph.graph.nodes:
        name = str(getattr(node.target, "__name__", node.target))
        depth += name.endswith("_increment_nesting")
        if depth:
            found.append(node.name)
        depth -= name.endswith("_decrement_nesting")
    return frozenset(found)


def writes(node: torch.fx.Node) -> bool:
    """Whether a node changes one of its inputs; where torch has no schema, its name decides."""
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    name = str(getattr(node.target, "__name__", ""))
    if (name.endswith("_") and not name.endswith("__")) or node.target in _WRITING or "out" in node.kwargs:
        return True
    # What an argument of the call makes write: statistics that are gathered, or `inplace=True`.
    switches = [argument for argument in node.args if isinstance(argument, bool)]
    is_inplace = bool(node.kwargs.get("inplace")) or (name in _INPLACE_LAST and switches[-1:] == [True])
    return is_inplace or any(known in name for known in _STATISTICS)


def outputs_of(graph: torch.fx.GraphModule) -> tuple[Any, ...]:
    """What the graph returns: nodes and constants."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = output.args[0]
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


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
        # Each is as large as the value, and takes no memory.
        return [
            torch.zeros((), dtype=value.dtype, device=value.device).expand(tuple(value.shape)).requires_grad_()
            for value in map(numerics.value_of, self.probes.values())
        ]


def probed(tapped: Tapped) -> Probed:
    """Puts probes into `tapped.graph`, where gradients flow through the graph and nothing stands against it."""
    original, graph = tapped.original, tapped.graph.graph
    flowing = [node for node in original.graph.nodes if node.op != "output" and _flows(node)]
    if not flowing:
        return Probed(tapped)
    if reason := _reason_against(original, flowing):
        return Probed(tapped, reason=reason)
    found = Probed(tapped)
    copies = {node.name: node for node in graph.nodes}
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]

    def watched(value: torch.fx.Node, use: Use, node: torch.fx.Node) -> torch.fx.Node:
        nonlocal last
        with graph.inserting_after(last):
            probe = graph.placeholder(f"probe_{len(found.probes)}")
        probe.meta["example_value"] = numerics.value_of(node)
        last = found.probes[use] = probe
        made = graph.call_function(beside, (value, probe))
        made.meta.update({name: node.meta[name] for name in _META if name in node.meta})
        return made

    for node in flowing:
        value = copies[node.name]
        for user in node.users:
            if user.op != "output":
                mine = copies[user.name]
                with graph.inserting_before(mine):
                    mine.replace_input_with(value, watched(value, (node.name, user.name), node))
        # What the only operation that uses a value passes back is all that the value gets.
        used_once = len(node.users) == 1 and next(iter(node.users)).op != "output"
        if node.op != "placeholder" and not used_once:
            with graph.inserting_after(value):
                made = watched(value, (node.name, ""), node)
            value.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
    tapped.graph.recompile()
    return found


def _flows(node: torch.fx.Node) -> bool:
    value = numerics.value_of(node)
    is_float = isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()
    return is_float and value.layout is torch.strided


def _reason_against(graph: torch.fx.GraphModule, flowing: list[torch.fx.Node]) -> str:
    if transformed(graph):
        return "the graph holds a transform of torch.func"
    if not any(node.op == "placeholder" for node in graph.graph.nodes):
        return "the graph has no inputs"
    for node in graph.graph.nodes:
        name = str(getattr(node.target, "__name__", node.target))
        # What it writes may be only a statistic, or a counter.
        written = [numerics.value_of(used) for used in node.all_input_nodes[:1]]
        counts = any(isinstance(value, torch.Tensor) and not value.is_floating_point() for value in written)
        leaves_values = counts or any(known in name for known in _STATISTICS)
        if name in _MODES or (writes(node) and not leaves_values):
            return f"the graph holds {name.lstrip('_')}"
    values = [(numerics.value_of(node), len(node.users)) for node in flowing]
    sizes = [(value.numel() * value.element_size(), uses) for value, uses in values]
    if not all(isinstance(size, int) for size, _ in sizes):
        return "its sizes are known only when it runs"
    if sum(size * (uses + 1) for size, uses in sizes) > _MOST_BYTES:
        return "they are too large to keep"
    return ""


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
