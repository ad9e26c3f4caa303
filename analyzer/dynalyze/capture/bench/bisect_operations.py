"""Judges the operations of a compiled graph one by one, each on the very inputs that it had in the compiled run.

An operation is computed again in eager and in fp64, from the values that the compiled code itself computed. So an
error is seen where it arises and at its full size: what came before has no part in it, and nothing that comes later
hides it. The gradients that it passes back are judged alike, in training: it is differentiated again at the values that
the compiled code computed on its way forward, with the gradient that the compiled code gave it on its way back.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.bisect_graph import Probed, Tapped, Use, writes
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.fp64_reference import Fp64Reference, raised
from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.output_capture import Key, Run
from dynalyze.capture.bench.state_snapshot import random_position
from dynalyze.capture.call_context import Modes, RandomState

# What switches autograd on and off says nothing about a value.
_SWITCHES = ("_set_grad_enabled",)
# What these give is whatever stood in memory before.
_UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_")
Incoming = tuple[tuple[int | None, torch.Tensor], ...]
Gradients = dict[str, torch.Tensor]


class Unknown(Exception):
    """A value that cannot be had; what is computed from it is not judged."""


@dataclass
class OperationFault:
    """The first operation whose result is wrong. `node` is that result; it may be one of several of the `operation`.

    `inputs` are the values that the operation had, by node, and `arguments` those of the whole graph. `autocast` is the
    dtype that it ran under autocast to. With `gradient` it is the gradient that is wrong: the one passed back to the
    input `towards` or, where that is "", the one that the operation gets. `incoming` are those that it got: at which of
    its results (None for its only one), and the gradient.
    """

    node: torch.fx.Node
    operation: torch.fx.Node
    judged: Judged
    graph: torch.fx.GraphModule
    inputs: dict[str, Any]
    arguments: tuple[Any, ...]
    autocast: str = ""
    gradient: bool = False
    towards: str = ""
    incoming: tuple[tuple[int | None, torch.Tensor], ...] = ()


@dataclass
class Value:
    """The value of a node: in the compiled run, and in fp64 where it is computed again."""

    given: Any
    exact: Any = None

    def to_fp64(self) -> Any:
        """The same in fp64."""
        if isinstance(self.given, torch.Tensor):
            return raised(self.given.detach())
        return self.given if self.exact is None else self.exact


@dataclass
class LocalJudge:
    """Judges one run of a tapped graph, whose `outputs` it is given once they are there."""

    tapped: Tapped
    arguments: tuple[Any, ...]
    tolerance: float
    outputs: Sequence[Any] = ()
    judged: int = 0
    _values: dict[str, Value] = field(default_factory=dict)

    def first_fault(self) -> OperationFault | None:
        """The first operation whose result is wrong; random states are left as they were."""
        before = RandomState.now()
        arguments = iter(self.arguments)
        exactly = Fp64Reference(evaluate, draws=False)
        try:
            with torch.no_grad():
                for node in self.tapped.original.graph.nodes:
                    if node.op == "output":
                        break
                    if node.op == "placeholder":
                        self._values[node.name] = Value(next(arguments))
                    elif (fault := self._at(node, exactly)) is not None:
                        return fault
        finally:
            before.restore()
        return None

    def _at(self, node: torch.fx.Node, exactly: Fp64Reference) -> OperationFault | None:
        version = self.tapped.version[node.name]
        name = str(getattr(node.target, "__name__", node.target))
        if name in _SWITCHES:
            self._values[node.name] = Value(None)
            return None
        if node.name in self.tapped.transformed:
            self._values[node.name] = Value(Unknown("it is inside of a transform"))
            return None
        compiled = self._result(node, version)
        try:
            eager, exact = self._both(node, version, exactly)
        except Exception as error:
            self._values[node.name] = Value(compiled if compiled is not None else Unknown(one_line(error)))
            return None
        self._values[node.name] = Value(eager, exact) if compiled is None else Value(compiled)
        if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor) or name in _UNFILLED:
            return None
        self.judged += 1
        judged = judged_alone(eager, exact if isinstance(exact, torch.Tensor) else None, compiled, self.tolerance)
        if judged.verdict != "suspicious":
            return None
        operation = node  # The one that made the value, where the node only takes one of several.
        while operation.target is operator.getitem and isinstance(origin := operation.args[0], torch.fx.Node):
            if not isinstance(origin.meta.get("example_value"), (tuple, list)):
                break
            operation = origin
        return self.fault(node, operation, judged)

    def _both(self, node: torch.fx.Node, version: int, exactly: Fp64Reference) -> tuple[Any, Any]:
        """The result in eager and in fp64, from the inputs that the compiled code had."""
        root = self.tapped.original
        read, read_exact = (self.reader(node, version, exact=exact) for exact in (False, True))
        inputs = map_aggregate(node.args, read), map_aggregate(node.kwargs, read)
        exact_inputs = map_aggregate(node.args, read_exact), map_aggregate(node.kwargs, read_exact)
        before = random_position()
        eager = evaluate(root, node, *inputs)
        if random_position() != before:
            raise Unknown("it draws random numbers")
        try:
            exact = exactly(root, node, *exact_inputs)
        except Exception as error:
            if not isinstance(eager, torch.Tensor):
                raise Unknown(one_line(error)) from error
            exact = None
        return eager, exact

    def reader(
        self, node: torch.fx.Node, version: int, *, exact: bool, wanted: Sequence[str] = (),
        leaves: Gradients | None = None,
    ) -> Callable[[Any], Any]:  # fmt: skip
        """Gives the values of a node's inputs; those that are `wanted` as leaves of their own, noted in `leaves`."""
        copied, leaves = writes(node), {} if leaves is None else leaves

        def read(used: Any) -> Any:
            if not isinstance(used, torch.fx.Node):
                return used
            if used.name in leaves:
                return leaves[used.name]
            value = self.read(used, version)
            found = value.to_fp64() if exact else value.given
            if isinstance(found, Unknown):
                raise found
            if used.name in wanted:
                found = leaves[used.name] = found.detach().clone().requires_grad_()
            return found.clone() if copied and isinstance(found, torch.Tensor) else found

        return read

    def read(self, node: torch.fx.Node, version: int) -> Value:
        """The value of a node, as it was after so many writes."""
        place = self.tapped.taps.get((node.name, version))
        return self._values[node.name] if place is None else Value(self.outputs[place])

    def _result(self, node: torch.fx.Node, version: int) -> Any:
        """The compiled code's result; of a node that writes, the tensor that it wrote to. None where it is unknown."""
        written = writes(node)
        found = self.tapped.taps.get((node.name, version + written))
        if found is None and written and node.all_input_nodes:
            found = self.tapped.taps.get((node.all_input_nodes[0].name, version + 1))
        return None if found is None else self.outputs[found]

    def fault(self, node: torch.fx.Node, operation: torch.fx.Node, judged: Judged) -> OperationFault:
        """The record of an operation with a wrong result, or one that passes a wrong gradient back."""
        version = self.tapped.version[operation.name]
        inputs = {used.name: self.read(used, version).given for used in operation.all_input_nodes}
        device = next((value.device.type for value in inputs.values() if isinstance(value, torch.Tensor)), "cpu")
        autocast = str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else ""
        return OperationFault(
            node, operation, judged, self.tapped.original, inputs, self.arguments, autocast.removeprefix("torch.")
        )


def judged_alone(eager: torch.Tensor, exact: torch.Tensor | None, compiled: torch.Tensor, tolerance: float) -> Judged:
    """The verdict on one tensor, by the rule that outputs are judged by."""
    key: Key = (0, "output", "result")
    once = Run({key: plain(eager)})
    runs = Runs(once, once, Run({key: plain(compiled)}), None, tolerance)
    runs.exact = Run({key: plain(exact)}) if exact is not None else None
    (judged,) = judge(runs)
    return judged


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the host, with nothing left to be conjugated or negated."""
    return tensor.detach().to("cpu").resolve_conj().resolve_neg()


def evaluate(root: torch.fx.GraphModule, node: torch.fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of one node; of one that writes and gives nothing, the tensor that it wrote to."""
    if node.op == "get_attr":
        owner: Any = root
        for part in str(node.target).split("."):
            owner = getattr(owner, part)
        return owner
    if node.op == "call_method":
        result = getattr(args[0], str(node.target))(*args[1:], **kwargs)
    else:
        function: Any = root.get_submodule(str(node.target)) if node.op == "call_module" else node.target
        result = function(*args, **kwargs)
    return args[0] if result is None and writes(node) and args else result


class GradientJudge:
    """Judges one run of a graph with probes, of which `forward` has judged the values.

    To be made while the run is under way: its modes are those that the operations are differentiated in.
    """

    def __init__(self, probed: Probed, forward: LocalJudge) -> None:
        self._probed = probed
        self._forward = forward
        self._modes = Modes.now()
        self._gradients: dict[Use, torch.Tensor] = {}
        self._exactly = Fp64Reference(evaluate, draws=False)
        self.judged = 0

    def fresh_probes(self) -> list[torch.Tensor]:
        """Probes for the run; what gradients they get is noted."""
        made = self._probed.fresh()
        for use, probe in zip(self._probed.probes, made, strict=True):
            probe.register_hook(functools.partial(self._note, use))
        return made

    def _note(self, use: Use, gradient: torch.Tensor | None) -> None:
        if gradient is not None:
            self._gradients.setdefault(use, gradient.detach().clone())

    def first_fault(self) -> OperationFault | None:
        """The first operation on the way back that passes on a wrong gradient."""
        before = RandomState.now()
        try:
            with self._modes.applied():
                for node in reversed(self._probed.tapped.original.graph.nodes):
                    if node.op.startswith("call_"):
                        fault = self._added_up(node) or self._at(node)
                        if fault is not None:
                            return fault
        finally:
            before.restore()
        return None

    def _added_up(self, node: torch.fx.Node) -> OperationFault | None:
        """Several operations use a value: is the sum of what they pass back right?"""
        whole = self._gradients.get((node.name, ""))
        parts = [self._gradients[use] for user in node.users if (use := (node.name, user.name)) in self._gradients]
        if whole is None or len(parts) < 2 or any(user.op == "output" for user in node.users):
            return None
        eager = functools.reduce(torch.add, parts)
        exact = functools.reduce(torch.add, map(raised, parts))
        worst = self._worst({node.name: eager}, {node.name: exact}, {node.name: whole})
        if worst is None:
            return None
        worst.why = (
            f"the gradients that {len(parts)} operations pass back to its result are added up wrong: {worst.why}"
        )
        return dataclasses.replace(self._forward.fault(node, node, worst), gradient=True)

    def _at(self, node: torch.fx.Node) -> OperationFault | None:
        uses = {used.name: (used.name, node.name) for used in node.all_input_nodes}
        compiled = {name: self._gradients[use] for name, use in uses.items() if use in self._gradients}
        incoming = self._incoming(node)
        if not compiled or not incoming:
            return None
        try:
            eager = self._passed_back(node, tuple(compiled), incoming, exact=False)
        except Exception:  # It draws random numbers, or cannot be differentiated by itself.
            return None
        try:
            exact = self._passed_back(node, tuple(compiled), incoming, exact=True)
        except Exception:
            exact = {}
        worst = self._worst(eager, exact, {name: one for name, one in compiled.items() if name in eager})
        if worst is None:
            return None
        fault = self._forward.fault(node, node, worst)
        return dataclasses.replace(fault, gradient=True, towards=worst.name, incoming=incoming)

    def _incoming(self, node: torch.fx.Node) -> Incoming:
        """The gradients that the results of an operation got."""
        own = self._probed.gradient_of(node, self._gradients)
        if own is not None:
            return ((None, own),)
        parts = [user for user in node.users if user.target is operator.getitem and isinstance(user.args[1], int)]
        found = ((part.args[1], self._probed.gradient_of(part, self._gradients)) for part in parts)
        return tuple((place, gradient) for place, gradient in found if gradient is not None)

    def _passed_back(
        self, node: torch.fx.Node, wanted: tuple[str, ...], incoming: Incoming, *, exact: bool
    ) -> Gradients:
        """The gradients towards the wanted inputs, by eager's own backward."""
        leaves: Gradients = {}
        version = self._probed.tapped.version[node.name]
        read = self._forward.reader(node, version, exact=exact, wanted=wanted, leaves=leaves)
        args, kwargs = map_aggregate(node.args, read), map_aggregate(node.kwargs, read)
        root, before = self._probed.tapped.original, random_position()
        with torch.enable_grad():
            result = (self._exactly if exact else evaluate)(root, node, args, kwargs)
        if random_position() != before:
            raise Unknown("it draws random numbers")
        results = [result if place is None else result[place] for place, _ in incoming]
        gradients = [raised(gradient) if exact else gradient for _, gradient in incoming]
        found = torch.autograd.grad(results, list(leaves.values()), gradients, allow_unused=True)
        return {name: one for name, one in zip(leaves, found, strict=True) if one is not None}

    def _worst(self, eager: Gradients, exact: Gradients, compiled: Gradients) -> Judged | None:
        """The worst of the gradients, if it is wrong."""
        self.judged += len(compiled)
        once = _run(eager)
        worst = next(iter(judge(Runs(once, once, _run(compiled), _run(exact), self._forward.tolerance))), None)
        return worst if worst is not None and worst.verdict == "suspicious" else None


def _run(gradients: Gradients) -> Run:
    tensors: dict[Key, torch.Tensor] = {(0, "gradient", name): plain(one) for name, one in gradients.items()}
    return Run(tensors)
