"""A graph with its inputs as a program of its own, and the fewest of its operations with which it stays wrong.

An operation goes by giving its users the value that it had in eager as an input. torch's own minimizer
(`torch._functorch.fx_minifier`) does that too; but it needs a graph that runs in eager, and what eager refuses is one
of the faults here.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.bisect_operations import OperationFault, evaluate, outputs_of
from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.inputs import Inputs

LITERALS = (bool, int, float, str, type(None), torch.dtype, torch.device, slice)
Faults = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Program:
    """A graph with the values of its inputs; with `train` its gradients are answers too."""

    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    train: bool = False

    @property
    def calls(self) -> list[torch.fx.Node]:
        """The nodes that compute something."""
        return [node for node in self.graph.graph.nodes if node.op.startswith("call_")]

    @property
    def operations(self) -> list[torch.fx.Node]:
        """The calls without `getitem`, which only takes one of several results."""
        return [node for node in self.calls if node.target is not operator.getitem]

    @property
    def elements(self) -> int:
        return sum(value.numel() for value in self.inputs if isinstance(value, torch.Tensor))


def program_of(graph: torch.fx.GraphModule, inputs: Sequence[Any], *, train: bool) -> Program:
    """The graph with inputs that lie in memory of their own, and with its constants among them."""
    nodes = [node for node in graph.graph.nodes if node.op != "output"]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    held = {node: evaluate(graph, node, (), {}) for node in nodes if node.op == "get_attr"}
    constants = {node: value for node, value in held.items() if isinstance(value, torch.Tensor)}
    made = torch.fx.Graph()
    copies = {node: made.placeholder(node.name) for node in (*placeholders, *constants)}
    for node in nodes:
        if node not in copies:
            copies[node] = made.node_copy(node, lambda used: copies[used])
    made.output(tuple(copies.get(item, item) for item in outputs_of(graph)))
    values = tuple(own_memory(value) for value in (*inputs, *constants.values()))
    return Program(torch.fx.GraphModule(graph, made), values, train)


def wrong_operation(fault: OperationFault, *, train: bool) -> tuple[Program, Program, Program]:
    """The operation by itself with the inputs that it had, all that the graph computes up to it, and the graph."""
    whole = program_of(fault.graph, fault.arguments, train=train)
    names = [node.name for node in whole.calls]
    until = names.index(fault.operation.name) + 1
    results = {user.name for user in fault.operation.users if user.target is operator.getitem}
    values = {name: own_memory(value) for name, value in fault.inputs.items()}
    alone = part_of(replace(whole, train=False), {fault.operation.name, *results}, values)
    return alone, part_of(whole, {*names[:until], *results}, {}), whole


def own_memory(value: Any) -> Any:
    """A tensor of the same strides and values that shares with no other; an expanded one stays expanded."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    source = value.detach()
    once = source[tuple(slice(0, 1) if step == 0 else slice(None) for step in source.stride())]
    try:
        made = torch.empty_strided(once.shape, source.stride(), dtype=source.dtype, device=source.device)
        made = made.copy_(once).expand(source.shape)
    except RuntimeError:  # Its elements lie over each other.
        made = source.clone()
    return made.requires_grad_(value.requires_grad)


def faults_of(program: Program, configuration: Configuration, device: str) -> Faults | None:
    """The contracts that a compiled program breaks, none where only numbers are wrong; None where it is right."""
    # Not the module itself: it would print where its code fails.
    model, phase = program.graph.forward, "train" if program.train else "forward"
    workload = CallsWorkload(model, [Inputs(program.inputs, {})], phase=phase, grad=program.train)
    answer = accuracy(workload, lambda: configured(model, configuration, device), configuration, device)
    if answer["verdict"] != "suspicious":
        return None
    # What eager refuses is known by its text, in which sizes may differ.
    return frozenset(
        (each["contract"], re.sub(r"\d+", "0", each["eager"]) if each["contract"] == "exception" else "")
        for each in answer["contracts"]
    )


def is_same_fault(found: Faults | None, wanted: Faults) -> bool:
    """Whether a contract of the wanted is broken, or numbers alone are wrong where no contract was."""
    return found is not None and (bool(found & wanted) if wanted else not found)


def reduced(program: Program, is_wrong: Callable[[Program], bool], until: float) -> tuple[Program, int]:
    """The smallest program that was found wrong before the time is up, and how many were tried."""
    values, refused = values_in_eager(program)
    tried = 0

    def works(make: Callable[[], Program | None]) -> Program | None:
        nonlocal tried
        if time.monotonic() > until:
            return None
        try:
            made = make()
            tried += made is not None
            return made if made is not None and is_wrong(made) else None
        except Exception:  # It is no program any more.
            return None

    always = set() if refused is None else {refused.name}
    names = [node.name for node in program.calls if node is not refused and (refused is None or node.name in values)]
    _, found = fewest(names, lambda kept: works(partial(part_of, program, {*kept, *always}, values)))
    program = found or program
    for size in sizes(program):
        for wanted in (2**power for power in range(size.bit_length()) if 2**power < size):
            # With equal numbers in the code changed too, and without.
            smaller = works(partial(with_size, program, size, wanted, literals=True))
            smaller = smaller or works(partial(with_size, program, size, wanted, literals=False))
            if smaller is not None:
                program = smaller
                break
    return program, tried


def fewest(items: Sequence[Any], works: Callable[[Sequence[Any]], Any]) -> tuple[Sequence[Any], Any]:
    """As few of some things as still work, and what `works` gave for them: None where none could be left out.

    Ever smaller parts are left out, the last ones first, and come back where it does not work without them.
    """
    found = None
    part = len(items)
    while part:
        for end in range(len(items), 0, -part):
            fewer = [*items[: max(0, end - part)], *items[end:]]
            if (given := works(fewer)) is not None:
                items, found = fewer, given
        part //= 2
    return items, found


def values_in_eager(program: Program) -> tuple[dict[str, Any], torch.fx.Node | None]:
    """What each node gives in eager, as it was at once; and the node that eager refuses, if any: it ends there."""
    values: dict[str, Any] = {}
    inputs = iter(map(own_memory, program.inputs))
    running: dict[str, Any] = {}
    read = lambda used: running[used.name] if isinstance(used, torch.fx.Node) else used  # noqa: E731
    with torch.set_grad_enabled(program.train):
        for node in program.graph.graph.nodes:
            if node.op == "output":
                break
            args, kwargs = map_aggregate(node.args, read), map_aggregate(node.kwargs, read)
            try:
                given = next(inputs) if node.op == "placeholder" else evaluate(program.graph, node, args, kwargs)
            except Exception:
                return values, node
            running[node.name], values[node.name] = given, own_memory(given)
    return values, None


def part_of(program: Program, names: set[str], values: Mapping[str, Any]) -> Program:
    """The program that computes these nodes alone, and gives of their results what it gave and what none of them uses.
    What they need of others are inputs with their `values`, or constants. Raises KeyError: the value of a node is
    needed, and is none that goes into a program.
    """
    kept = dict.fromkeys(node for node in program.calls if node.name in names)
    needed = {used for node in kept for used in node.all_input_nodes}
    given = dict(zip(program.graph.graph.find_nodes(op="placeholder"), program.inputs, strict=True))
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, Any] = {}
    inputs: list[Any] = []
    for node in program.graph.graph.nodes:
        if node not in needed or node in kept:
            continue
        value = values[node.name] if node.name in values else given.get(node)
        if isinstance(value, torch.Tensor):
            made[node] = graph.placeholder(node.name)
            inputs.append(value)
        elif node.op != "get_attr":
            made[node] = _literal(node, value)
    for node in program.graph.graph.nodes:
        if node in kept or (node in needed and node not in made):
            made[node] = graph.node_copy(node, lambda used: made[used])
    before = [item for item in outputs_of(program.graph) if isinstance(item, torch.fx.Node) and item in made]
    ends = [
        node for node in kept
        if node not in needed and node not in before and isinstance(values.get(node.name, _NEW), torch.Tensor)
    ]  # fmt: skip
    graph.output(tuple(made[node] for node in (*before, *ends)))
    return replace(program, graph=torch.fx.GraphModule(program.graph, graph), inputs=tuple(inputs))


_NEW = torch.empty(0)
"""In the place of a value that nobody knows: what eager refuses, or the compiled code computed, gives a tensor."""


def _literal(node: torch.fx.Node, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        items = [_literal(node, item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if not isinstance(value, LITERALS):
        raise KeyError(node.name)
    return value


def sizes(program: Program) -> list[int]:
    """The sizes of the inputs' dimensions, those first that most elements are behind."""
    weights: dict[int, int] = {}
    for value in program.inputs:
        for size in set(value.shape) if isinstance(value, torch.Tensor) else ():
            weights[size] = weights.get(size, 0) + value.numel()
    return sorted((size for size in weights if size > 1), key=lambda size: -weights[size])


def with_size(program: Program, size: int, wanted: int, *, literals: bool) -> Program | None:
    """The program with `wanted` for a size of its inputs, with `literals` also for equal numbers in its code."""
    found = False

    def changed(item: Any) -> Any:
        nonlocal found
        if type(item) is not int or item != size:
            return item
        found = True
        return wanted if literals else item

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return changed(value)
        part = value.detach()[tuple(slice(0, wanted if each == size else each) for each in value.shape)]
        made = own_memory(part) if 0 in value.stride() else part.clone()
        return made.requires_grad_(value.requires_grad)

    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph.graph, {}))
    for node in graph.nodes:
        if node.op.startswith("call_"):
            node.args, node.kwargs = map_aggregate(node.args, changed), map_aggregate(node.kwargs, changed)
    inputs = tuple(map(cut, program.inputs))
    if not literals and not found:
        return None
    return replace(program, graph=torch.fx.GraphModule(program.graph, graph), inputs=inputs)
