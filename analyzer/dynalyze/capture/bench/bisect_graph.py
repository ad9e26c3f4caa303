"""Graphs of Dynamo whose outputs hold the value of every operation.

A copy of each value is added to the outputs before a backend compiles the graph, so that the values are those of the
compiled code. Where a graph writes into tensors, a value has versions: it is copied anew before it is used after a
write.
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
# What fills buffers on the way.
_STATISTICS = ("batch_norm", "instance_norm")

Tap = tuple[str, int]  # The name of a node, and how often the graph has written before the value was copied.


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
