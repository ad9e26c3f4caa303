"""Graphs of Dynamo that tell what happens in them: the value of every operation, and the gradients that flow back.

Values: a copy of each is added to the outputs of the graph before a backend compiles it, so that the values are those
of the compiled code. Where a graph writes into tensors, a value has versions: it is copied anew before it is used after
a write.

Gradients: a probe is one more input of the graph. It stands beside a value where an operation uses it, changes nothing
on the way forward, and gets the gradient that this operation alone passes back to that value, whatever compiles the
graph and however. A value that several operations use has a probe of its own too, for the sum of what they pass back.
"""

from __future__ import annotations

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
_TOLD_LAST = {
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "silu", "mish", "hardtanh", "hardswish", "hardsigmoid",
    "threshold", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
}  # fmt: skip
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

    @property
    def own_outputs(self) -> int:
        """How many outputs the original has."""
        return len(_outputs(self.original))


def tapped(original: torch.fx.GraphModule, only: frozenset[str] | None = None) -> Tapped:
    """The graph with its values among its outputs; `only` names the nodes whose values are wanted."""
    return _Tapping(original, only).made()


class _Tapping:
    def __init__(self, original: torch.fx.GraphModule, only: frozenset[str] | None) -> None:
        self._original = original
        self._only = only
        self._nodes = list(original.graph.nodes)
        self._writes = any(writes(node) for node in self._nodes)
        self._transformed = transformed(original)
        self._graph = torch.fx.Graph()
        self._copies: dict[torch.fx.Node, torch.fx.Node] = {}
        self._taps: dict[Tap, torch.fx.Node] = {}
        self._version: dict[str, int] = {}
        self._written = self._bytes = self._cut = 0

    def made(self) -> Tapped:
        for node in self._nodes:
            if node.op == "output":
                break
            self._add(node)
        own = [self._copies[item] if isinstance(item, torch.fx.Node) else item for item in _outputs(self._original)]
        self._graph.output((*own, *self._taps.values()))
        graph = torch.fx.GraphModule(self._original, self._graph)
        graph.meta = self._original.meta
        places = {tap: len(own) + number for number, tap in enumerate(self._taps)}
        return Tapped(self._original, graph, places, self._version, self._cut, self._transformed)

    def _add(self, node: torch.fx.Node) -> None:
        if self._writes:
            for used in node.all_input_nodes:
                self._tap(used)
        self._version[node.name] = self._written
        self._copies[node] = self._graph.node_copy(node, lambda used: self._copies[used])
        if writes(node):
            self._written += 1
            for used in node.all_input_nodes[:1]:
                self._tap(used)
        if node.op not in ("placeholder", "get_attr"):
            self._tap(node)

    def _tap(self, node: torch.fx.Node) -> None:
        key = node.name, self._written
        if key in self._taps or not _is_plain(numerics.value_of(node)) or not self._is_wanted(node):
            return
        self._bytes += _size(numerics.value_of(node))
        if self._bytes > _MOST_BYTES:
            self._cut += 1
            return
        alone = self._graph.call_method("detach", (self._copies[node],))
        copied = self._taps[key] = self._graph.call_method("clone", (alone,))
        for made in (alone, copied):
            made.meta.update({k: v for k, v in node.meta.items() if k in ("example_value", "stack_trace")})

    def _is_wanted(self, node: torch.fx.Node) -> bool:
        return node.name not in self._transformed and (self._only is None or node.name in self._only)


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
    """Whether a node changes one of its inputs; for what torch does not tell of, its name decides."""
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return bool(schema.is_mutable)
    name = str(getattr(node.target, "__name__", ""))
    by_name = name.endswith("_") and not name.endswith("__")
    return by_name or node.target in _WRITING or "out" in node.kwargs or _asked_to(node, name)


def _asked_to(node: torch.fx.Node, name: str) -> bool:
    """Whether an argument of the call makes it write: `inplace=True`, or statistics that are gathered."""
    if any(known in name for known in _STATISTICS):
        return True
    switches = [argument for argument in node.args if isinstance(argument, bool)]
    return bool(node.kwargs.get("inplace")) or (name in _TOLD_LAST and switches[-1:] == [True])


def _outputs(graph: torch.fx.GraphModule) -> tuple[Any, ...]:
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return tuple(output.args[0])


def _is_plain(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized


def _size(value: torch.Tensor) -> int:
    try:
        return int(value.numel() * value.element_size())
    except Exception:  # A size that is known only when the graph runs.
        return 0


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
    return counts or any(known in name for known in _STATISTICS)


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
