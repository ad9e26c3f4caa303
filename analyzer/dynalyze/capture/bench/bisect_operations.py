"""Judges the operations of a compiled graph one by one, each on the very inputs that it had in the compiled run.

An operation is computed again in eager and in fp64, from the values that the compiled code itself computed. So an
error is seen where it arises and at its full size: what came before has no part in it, and nothing that comes later
hides it. The gradients that it passes back are judged alike, in training: it is differentiated again at the values that
the compiled code computed on its way forward, with the gradient that the compiled code gave it on its way back.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.bisect_graph import Probed, Tapped, Use, writes
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.fp64_reference import Fp64Reference, raised
from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.output_capture import Kind, RunOutputs
from dynalyze.capture.bench.state_snapshot import random_position
from dynalyze.capture.call_context import Modes

# What switches autograd on and off says nothing about a value.
_SWITCHES = ("_set_grad_enabled",)
# What these give is whatever stood in memory before.
_UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_")
Incoming = tuple[tuple[int | None, torch.Tensor], ...]
Tensors = dict[str, torch.Tensor]


class Unknown(Exception):
    """A value that cannot be had; what is computed from it is not judged."""


@dataclass
class OperationFault:
    """The first operation whose result is wrong; with `gradient`, the gradient that it passes back or gets.

    `inputs` are the values that it had, by node, and `arguments` those of the whole graph. `autocast` is the dtype that
    it ran under autocast to.
    """

    operation: torch.fx.Node
    judged: Judged
    graph: torch.fx.GraphModule
    inputs: dict[str, Any]
    arguments: tuple[Any, ...]
    autocast: str = ""
    gradient: bool = False


@dataclass
class LocalJudge:
    """Judges one run of a tapped graph, whose `outputs` it is given once they are there.

    `_values` are those of the nodes: in the compiled run, and in fp64 where it is computed again.
    """

    tapped: Tapped
    arguments: tuple[Any, ...]
    tolerance: float
    outputs: Sequence[Any] = ()
    judged: int = 0
    _values: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def first_fault(self) -> OperationFault | None:
        """The first operation whose result is wrong."""
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
        references = {"result": exact} if isinstance(exact, torch.Tensor) else {}
        judged = wrong_one("output", {"result": eager}, references, {"result": compiled}, self.tolerance)
        if judged is None:
            return None
        operation = node  # The one that made the value, where the node only takes one of several.
        while operation.target is operator.getitem and isinstance(origin := operation.args[0], torch.fx.Node):
            if not isinstance(origin.meta.get("example_value"), (tuple, list)):
                break
            operation = origin
        return self.fault(operation, judged)

    def _both(self, node: torch.fx.Node, version: int, exactly: Fp64Reference) -> tuple[Any, Any]:
        """The result in eager and in fp64, from the inputs that the compiled code had."""
        read, read_exact = (self.reader(node, version, exact=exact) for exact in (False, True))
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

    def reader(
        self, node: torch.fx.Node, version: int, *, exact: bool, wanted: Sequence[str] = (),
        leaves: Tensors | None = None,
    ) -> Callable[[Any], Any]:  # fmt: skip
        """Gives the values of a node's inputs; those that are `wanted` as leaves of their own, noted in `leaves`."""
        copied, leaves = writes(node), {} if leaves is None else leaves

        def read(used: Any) -> Any:
            if not isinstance(used, torch.fx.Node):
                return used
            if used.name in leaves:
                return leaves[used.name]
            found, in_fp64 = self.read(used, version)
            if exact and isinstance(found, torch.Tensor):
                found = raised(found.detach())
            elif exact and in_fp64 is not None:
                found = in_fp64
            if isinstance(found, Unknown):
                raise found
            if used.name in wanted:
                found = leaves[used.name] = found.detach().clone().requires_grad_()
            return found.clone() if copied and isinstance(found, torch.Tensor) else found

        return read

    def read(self, node: torch.fx.Node, version: int) -> tuple[Any, Any]:
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

    def fault(self, operation: torch.fx.Node, judged: Judged) -> OperationFault:
        """The record of an operation with a wrong result, or one that passes a wrong gradient back."""
        version = self.tapped.version[operation.name]
        inputs = {used.name: self.read(used, version)[0] for used in operation.all_input_nodes}
        device = next((value.device.type for value in inputs.values() if isinstance(value, torch.Tensor)), "cpu")
        autocast = str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else ""
        return OperationFault(
            operation, judged, self.tapped.original, inputs, self.arguments, autocast.removeprefix("torch.")
        )


def wrong_one(kind: Kind, eager: Tensors, exact: Tensors, compiled: Tensors, tolerance: float) -> Judged | None:
    """The worst of some tensors, by the rule that outputs are judged by; None where none is wrong."""
    once, reference, other = (
        RunOutputs({(0, kind, n): t.detach().to("cpu").resolve_conj().resolve_neg() for n, t in tensors.items()})
        for tensors in (eager, exact, compiled)
    )
    worst = next(iter(judge(Runs(once, once, other, reference, tolerance))), None)
    return worst if worst is not None and worst.verdict == "suspicious" else None


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


@dataclass
class GradientJudge:
    """Judges one run of a graph with probes, of which `forward` has judged the values.

    To be made while the run is under way: its modes are those that the operations are differentiated in.
    """

    probed: Probed
    forward: LocalJudge
    judged: int = 0
    _modes: Modes = field(default_factory=Modes.now)
    _gradients: dict[Use, torch.Tensor] = field(default_factory=dict)
    _exactly: Fp64Reference = field(default_factory=lambda: Fp64Reference(evaluate, draws=False))

    def fresh_probes(self) -> list[torch.Tensor]:
        """Probes for the run; what gradients they get is noted."""

        def note(use: Use, gradient: torch.Tensor | None) -> None:
            if gradient is not None:
                self._gradients.setdefault(use, gradient.detach().clone())

        made = self.probed.fresh()
        for use, probe in zip(self.probed.probes, made, strict=True):
            probe.register_hook(functools.partial(note, use))
        return made

    def first_fault(self) -> OperationFault | None:
        """The first operation on the way back that passes on a wrong gradient."""
        with self._modes.applied():
            nodes = [n for n in reversed(self.probed.tapped.original.graph.nodes) if n.op.startswith("call_")]
            return next((fault for node in nodes if (fault := self._added_up(node) or self._at(node))), None)

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
        return replace(self.forward.fault(node, worst), gradient=True)

    def _at(self, node: torch.fx.Node) -> OperationFault | None:
        uses = {used.name: (used.name, node.name) for used in node.all_input_nodes}
        compiled = {name: self._gradients[use] for name, use in uses.items() if use in self._gradients}
        incoming = self._incoming(node)
        if not compiled or not incoming:
            return None
        eager: Tensors = {}
        exact: Tensors = {}
        with contextlib.suppress(Exception):  # It draws random numbers, or cannot be differentiated by itself.
            eager = self._passed_back(node, tuple(compiled), incoming, exact=False)
            exact = self._passed_back(node, tuple(compiled), incoming, exact=True)
        worst = self._worst(eager, exact, {name: one for name, one in compiled.items() if name in eager})
        if worst is None:
            return None
        return replace(self.forward.fault(node, worst), gradient=True)

    def _incoming(self, node: torch.fx.Node) -> Incoming:
        """The gradients that the results of an operation got."""

        def gradient_of(result: torch.fx.Node) -> torch.Tensor | None:
            uses = [(result.name, ""), *((result.name, user.name) for user in result.users)]
            return next((self._gradients[use] for use in uses if use in self._gradients), None)

        own = gradient_of(node)
        if own is not None:
            return ((None, own),)
        parts = [user for user in node.users if user.target is operator.getitem and isinstance(user.args[1], int)]
        found = ((part.args[1], gradient_of(part)) for part in parts)
        return tuple((place, gradient) for place, gradient in found if gradient is not None)

    def _passed_back(self, node: torch.fx.Node, wanted: tuple[str, ...], incoming: Incoming, *, exact: bool) -> Tensors:
        """The gradients towards the wanted inputs, by eager's own backward."""
        leaves: Tensors = {}
        version = self.probed.tapped.version[node.name]
        read = self.forward.reader(node, version, exact=exact, wanted=wanted, leaves=leaves)
        args, kwargs = map_aggregate(node.args, read), map_aggregate(node.kwargs, read)
        root, before = self.probed.tapped.original, random_position()
        with torch.enable_grad():
            result = (self._exactly if exact else evaluate)(root, node, args, kwargs)
        if random_position() != before:
            raise Unknown("it draws random numbers")
        results = [result if place is None else result[place] for place, _ in incoming]
        gradients = [raised(gradient) if exact else gradient for _, gradient in incoming]
        found = torch.autograd.grad(results, list(leaves.values()), gradients, allow_unused=True)
        return {name: one for name, one in zip(leaves, found, strict=True) if one is not None}

    def _worst(self, eager: Tensors, exact: Tensors, compiled: Tensors) -> Judged | None:
        self.judged += len(compiled)
        return wrong_one("gradient", eager, exact, compiled, self.forward.tolerance)
