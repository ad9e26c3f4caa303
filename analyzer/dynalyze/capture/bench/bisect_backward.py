"""Judges the gradients that the operations of a compiled graph pass back, one operation at a time.

Each operation is differentiated again in eager and in fp64, at the values that the compiled code computed on its way
forward and with the gradient that the compiled code gave it on its way back. So only its own backward is judged.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.bisect_local import LocalJudge, OperationFault, Unknown, evaluate, plain
from dynalyze.capture.bench.bisect_probes import Probed, Use
from dynalyze.capture.bench.bisect_taps import writes
from dynalyze.capture.bench.double import Oracle, raised
from dynalyze.capture.bench.judge import Judged, Runs, judge
from dynalyze.capture.bench.kept_state import random_position
from dynalyze.capture.bench.observed import Key, Run
from dynalyze.capture.call_context import Modes, RandomState

Incoming = tuple[tuple[int | None, torch.Tensor], ...]
Gradients = dict[str, torch.Tensor]


class GradientJudge:
    """Judges one run of a graph with probes, of which `forward` has judged the values.

    To be made while the run is under way: its modes are those that the operations are differentiated in.
    """

    def __init__(self, probed: Probed, forward: LocalJudge, tolerance: float) -> None:
        self._probed = probed
        self._forward = forward
        self._tolerance = tolerance
        self._modes = Modes.now()
        self._gradients: dict[Use, torch.Tensor] = {}
        self._exactly = Oracle(evaluate, draws=False)
        self.judged = 0

    def fresh_probes(self) -> list[torch.Tensor]:
        """Probes for the run; what gradients they get is noted."""
        made = self._probed.fresh()
        for use, probe in zip(self._probed.probes, made, strict=True):
            probe.register_hook(self._noting(use))
        return made

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

    def _noting(self, use: Use) -> Callable[[torch.Tensor], None]:
        def note(gradient: torch.Tensor | None) -> None:
            if gradient is not None:
                self._gradients.setdefault(use, gradient.detach().clone())

        return note

    def _added_up(self, node: torch.fx.Node) -> OperationFault | None:
        """Several operations use a value: is the sum of what they pass back right?"""
        whole = self._gradients.get((node.name, ""))
        parts = [self._gradients[use] for user in node.users if (use := (node.name, user.name)) in self._gradients]
        if whole is None or len(parts) < 2 or any(user.op == "output" for user in node.users):
            return None
        eager = functools.reduce(torch.add, parts)
        exact = functools.reduce(torch.add, map(raised, parts))
        self.judged += 1
        worst = self._worst({node.name: eager}, {node.name: exact}, {node.name: whole})
        if worst is None:
            return None
        worst.why = (
            f"the gradients that {len(parts)} operations pass back to its result are added up wrong: {worst.why}"
        )
        return self._fault(node, worst)

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
        return self._compared(node, incoming, eager, exact, compiled)

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
        leaves: dict[str, torch.Tensor] = {}
        args, kwargs = (
            map_aggregate(part, self._reader(node, wanted, leaves, exact)) for part in (node.args, node.kwargs)
        )
        root, before = self._probed.tapped.original, random_position()
        with torch.enable_grad():
            result = (self._exactly if exact else evaluate)(root, node, args, kwargs)
        if random_position() != before:
            raise Unknown("it draws random numbers")
        results = [result if place is None else result[place] for place, _ in incoming]
        gradients = [raised(gradient) if exact else gradient for _, gradient in incoming]
        found = torch.autograd.grad(results, list(leaves.values()), gradients, allow_unused=True)
        return {name: one for name, one in zip(leaves, found, strict=True) if one is not None}

    def _reader(
        self, node: torch.fx.Node, wanted: tuple[str, ...], leaves: Gradients, exact: bool
    ) -> Callable[[Any], Any]:
        """Gives the values of the inputs; those that are wanted as leaves of their own, noted in `leaves`."""
        version = self._probed.tapped.version[node.name]

        def read(used: Any) -> Any:
            if not isinstance(used, torch.fx.Node):
                return used
            if used.name in leaves:
                return leaves[used.name]
            value = self._forward.read(used, version)
            found = value.in_double() if exact else value.given
            if isinstance(found, Unknown):
                raise found
            if used.name in wanted:
                found = leaves[used.name] = found.detach().clone().requires_grad_()
            return found.clone() if writes(node) and isinstance(found, torch.Tensor) else found

        return read

    def _compared(
        self, node: torch.fx.Node, incoming: Incoming, eager: Gradients, exact: Gradients, compiled: Gradients
    ) -> OperationFault | None:
        compiled = {name: one for name, one in compiled.items() if name in eager}
        self.judged += len(compiled)
        worst = self._worst(eager, exact, compiled)
        return None if worst is None else self._fault(node, worst, towards=worst.name, incoming=incoming)

    def _worst(self, eager: Gradients, exact: Gradients, compiled: Gradients) -> Judged | None:
        """The worst of the gradients, if it is wrong."""
        once = _run(eager)
        worst = next(iter(judge(Runs(once, once, _run(compiled), _run(exact), self._tolerance))), None)
        return worst if worst is not None and worst.verdict == "suspicious" else None

    def _fault(self, node: torch.fx.Node, judged: Judged, **known: Any) -> OperationFault:
        return dataclasses.replace(self._forward.fault(node, node, judged), gradient=True, **known)


def _run(gradients: Gradients) -> Run:
    tensors: dict[Key, torch.Tensor] = {(0, "gradient", name): plain(one) for name, one in gradients.items()}
    return Run(tensors)
