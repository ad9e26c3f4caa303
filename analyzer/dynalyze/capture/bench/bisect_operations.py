"""Judges the operations of a compiled graph one by one, each on the very inputs that it had in the compiled run.

A copy of each value is added to the outputs of a graph before a backend compiles it, so that the values are those of
the compiled code. Where a graph writes into tensors, a value has versions: it is copied anew before it is used after a
write. Each operation is computed again in eager and in fp64, from these values: an error is seen where it arises, at
its full size. What came before has no part in it, and nothing that comes later hides it.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.fp64_reference import Fp64Reference, raised
from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.output_capture import RunOutputs, on_host
from dynalyze.capture.bench.state_snapshot import random_position
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
# What switches autograd on and off says nothing about a value.
_SWITCHES = ("_set_grad_enabled",)
# What these give is whatever stood in memory before.
_UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_")

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


class Unknown(Exception):
    """A value that is unknown; results computed from it are not judged."""


@dataclass
class OperationFault:
    """The first operation whose result is wrong.

    `inputs` are the values that it had, by node, and `arguments` those of the whole graph. `autocast` is the dtype that
    it ran under autocast to.
    """

    operation: torch.fx.Node
    judged: Judged
    graph: torch.fx.GraphModule
    inputs: dict[str, Any]
    arguments: tuple[Any, ...]
    autocast: str = ""


@dataclass
class LocalJudge:
    """Judges one run of a tapped graph.

    `_values` are those of the nodes: in the compiled run, and in fp64 where it is computed again.
    """

    tapped: Tapped
    arguments: tuple[Any, ...]
    outputs: Sequence[Any]
    tolerance: float
    judged: int = 0
    _values: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def first_fault(self) -> OperationFault | None:
        arguments = iter(self.arguments)
        exactly = Fp64Reference(evaluate, draws=False)
        with torch.no_grad():
            for node in self.tapped.original.graph.nodes:
                if node.op == "output":
                    break
                if node.op == "placeholder":
                    self._values[node.name] = next(arguments), None
                elif (fault := self._at(node, exactly)) is not None:
                    return fault
        return None

    def _at(self, node: torch.fx.Node, exactly: Fp64Reference) -> OperationFault | None:
        version = self.tapped.version[node.name]
        name = str(getattr(node.target, "__name__", node.target))
        if name in _SWITCHES or node.name in self.tapped.transformed:
            self._values[node.name] = None if name in _SWITCHES else Unknown("it is inside of a transform"), None
            return None
        compiled = self._result(node, version)
        try:
            eager, exact = self._both(node, version, exactly)
        except Exception as error:
            self._values[node.name] = compiled if compiled is not None else Unknown(one_line(error)), None
            return None
        self._values[node.name] = (eager, exact) if compiled is None else (compiled, None)
        if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor) or name in _UNFILLED:
            return None
        self.judged += 1
        judged = judge_result(eager, exact, compiled, self.tolerance)
        if judged.verdict != "suspicious":
            return None
        operation = node  # The one that made the value, where the node only takes one of several.
        while operation.target is operator.getitem and isinstance(origin := operation.args[0], torch.fx.Node):
            if not isinstance(origin.meta.get("example_value"), (tuple, list)):
                break
            operation = origin
        return self._fault(operation, judged)

    def _both(self, node: torch.fx.Node, version: int, exactly: Fp64Reference) -> tuple[Any, Any]:
        """The result in eager and in fp64, from the inputs that the compiled code had."""
        read, read_exact = (self._reader(node, version, exact=exact) for exact in (False, True))
        inputs, exact_inputs = (
            [map_aggregate(part, r) for part in (node.args, node.kwargs)] for r in (read, read_exact)
        )
        before = random_position()
        eager = evaluate(self.tapped.original, node, *inputs)
        if random_position() != before:
            raise Unknown("it draws random numbers")
        try:
            return eager, exactly(self.tapped.original, node, *exact_inputs)
        except Exception as error:
            if not isinstance(eager, torch.Tensor):
                raise Unknown(one_line(error)) from error
            return eager, None

    def _reader(self, node: torch.fx.Node, version: int, *, exact: bool) -> Callable[[Any], Any]:
        """A function that gives the value of a node that this one reads."""
        copied = writes(node)

        def read(used: Any) -> Any:
            if not isinstance(used, torch.fx.Node):
                return used
            found, in_fp64 = self._read(used, version)
            if exact and isinstance(found, torch.Tensor):
                found = raised(found.detach())
            elif exact and in_fp64 is not None:
                found = in_fp64
            if isinstance(found, Unknown):
                raise found
            return found.clone() if copied and isinstance(found, torch.Tensor) else found

        return read

    def _read(self, node: torch.fx.Node, version: int) -> tuple[Any, Any]:
        """The value of a node, as it was after so many writes, and that in fp64 where it was computed again."""
        place = self.tapped.taps.get((node.name, version))
        return self._values[node.name] if place is None else (self.outputs[place], None)

    def _result(self, node: torch.fx.Node, version: int) -> Any:
        """The compiled code's result; of a node that writes, the tensor that it wrote to. None where it is unknown."""
        written = writes(node)
        found = self.tapped.taps.get((node.name, version + written))
        if found is None and written and node.all_input_nodes:
            found = self.tapped.taps.get((node.all_input_nodes[0].name, version + 1))
        return None if found is None else self.outputs[found]

    def _fault(self, operation: torch.fx.Node, judged: Judged) -> OperationFault:
        version = self.tapped.version[operation.name]
        inputs = {used.name: self._read(used, version)[0] for used in operation.all_input_nodes}
        device = next((value.device.type for value in inputs.values() if isinstance(value, torch.Tensor)), "cpu")
        autocast = str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else ""
        return OperationFault(
            operation, judged, self.tapped.original, inputs, self.arguments, autocast.removeprefix("torch.")
        )


def judge_result(eager: torch.Tensor, exact: Any, compiled: torch.Tensor, tolerance: float) -> Judged:
    """The verdict on one tensor, by the same rule as for outputs."""

    def run(value: Any) -> RunOutputs:
        is_known = isinstance(value, torch.Tensor)
        return RunOutputs({(0, "output", "result"): on_host(value)} if is_known else {})

    once = run(eager)
    return judge(Runs(once, once, run(compiled), run(exact), tolerance))[0]


def evaluate(root: torch.fx.GraphModule, node: torch.fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one node; of one that writes and gives nothing, the tensor that it wrote to."""
    run = getattr(torch.fx.Interpreter(root, garbage_collect_values=False), node.op)
    result = run(node.target, args, kwargs)
    return args[0] if result is None and writes(node) and args else result
