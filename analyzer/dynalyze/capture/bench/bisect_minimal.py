"""Reduces a graph with wrong answers: fewer results and operations, then smaller inputs, as long as they stay wrong.

An operation goes by giving its users the value that it had in eager as an input. torch's own minimizer
(`torch._functorch.fx_minifier`) does that much too; but it needs a graph that runs in eager, and what eager refuses is
one of the faults here, and it keeps the sizes.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.fx.node import map_aggregate

from dynalyze.capture.bench.accuracy import accuracy
from dynalyze.capture.bench.bisect_graph import outputs_of, writes
from dynalyze.capture.bench.bisect_operations import evaluate
from dynalyze.capture.bench.call_workload import CallsWorkload
from dynalyze.capture.bench.configure import configured
from dynalyze.capture.bench.protocol import Configuration
from dynalyze.capture.inputs import Inputs

_NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Program:
    """A graph with the values of its inputs; with `train` its gradients are answers too."""

    graph: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    train: bool = False

    @property
    def operations(self) -> int:
        """How many there are; to take one of several results is none."""
        return sum(
            node.op.startswith("call_") and node.target is not operator.getitem for node in self.graph.graph.nodes
        )

    @property
    def elements(self) -> int:
        """How many numbers go in."""
        return sum(value.numel() for value in self.inputs if isinstance(value, torch.Tensor))


IsWrong = Callable[[Program], bool]


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
    *_, output = graph.graph.nodes
    results = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    made.output(tuple(copies.get(item, item) for item in results))
    values = tuple(own_memory(value) for value in (*inputs, *constants.values()))
    return Program(torch.fx.GraphModule(graph, made), values, train)


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


@dataclass
class SameFault:
    """Whether a program is wrong as the first one was: the accuracy test says so, and the same contract is broken."""

    configuration: Configuration
    device: str
    _wanted: frozenset[tuple[str, str]] | None = None

    def __call__(self, program: Program) -> bool:
        phase = "train" if program.train else "forward"
        # Not the module itself: it would print where its code fails.
        model = program.graph.forward
        workload = CallsWorkload(model, [Inputs(program.inputs, {})], phase=phase, grad=program.train)
        target = lambda: configured(model, self.configuration, self.device)  # noqa: E731
        answer = accuracy(workload, target, self.configuration, self.device)
        if answer["verdict"] != "suspicious":
            return False
        broken = frozenset(
            # Of what eager refuses, it must be the same; sizes in the text may be others.
            (each["contract"], re.sub(r"\d+", "0", each["eager"]) if each["contract"] == "exception" else "")
            for each in answer["contracts"]
        )
        if self._wanted is None:
            self._wanted = broken
        return bool(broken & self._wanted) if self._wanted else not broken


@dataclass
class Reduction:
    """Makes a wrong program smaller until the time is up. `tried` counts the programs that were looked at."""

    is_wrong: IsWrong
    until: float
    tried: int = 0

    def reduced(self, program: Program) -> Program:
        """The smallest that was found."""
        program = self._fewer_results(program)
        program = self._fewer_operations(program)
        return self._smaller(program)

    def _works(self, make: Callable[[], Program | None]) -> Program | None:
        """The program that is made, where it is wrong."""
        if time.monotonic() > self.until:
            return None
        try:
            made = make()
            self.tried += made is not None
            return made if made is not None and self.is_wrong(made) else None
        except Exception:  # It is no program any more.
            return None

    def _fewer_results(self, program: Program) -> Program:
        """A beginning of the graph, and of what it gives as little as shows the fault."""
        values, refused = values_in_eager(program)
        nodes = [node for node in program.graph.graph.nodes if node.op.startswith("call_")]
        if refused is not None:
            return self._works(partial(ending_in, program, (refused,))) or program
        right, wrong, found = 0, len(nodes), program
        while wrong - right > 1:
            middle = (right + wrong) // 2
            ends = _ends(nodes[:middle], values)
            shorter = self._works(partial(ending_in, program, ends)) if ends else None
            right, wrong, found = (right, middle, shorter) if shorter is not None else (middle, wrong, found)
        program = found
        results = tuple(each for each in outputs_of(program.graph) if isinstance(each, torch.fx.Node))

        def fewer(kept: Sequence[torch.fx.Node]) -> Program | None:
            return self._works(partial(ending_in, program, kept)) if kept else None

        return fewest(results, fewer)[1] or program

    def _fewer_operations(self, program: Program) -> Program:
        values, refused = values_in_eager(program)
        names = [node.name for node in program.graph.graph.nodes if node.op.startswith("call_")]
        names = [name for name in names if refused is None or name != refused.name]

        def fewer(kept: Sequence[str]) -> Program | None:
            keep = {*kept, refused.name if refused is not None else ""}
            return self._works(partial(computing, program, keep, values))

        return fewest(names, fewer)[1] or program

    def _smaller(self, program: Program) -> Program:
        """Each size in turn made as small as it shows the fault, wherever it stands."""
        for size in sizes(program):
            wanted = 1
            while wanted < size:
                smaller = partial(with_size, program, size, wanted)
                found = self._works(partial(smaller, literals=True)) or self._works(partial(smaller, literals=False))
                if found is not None:
                    program = found
                    break
                wanted *= 2
        return program


def fewest(items: Sequence[Any], works: Callable[[Sequence[Any]], Any]) -> tuple[Sequence[Any], Any]:
    """As few of some things as still work, and what `works` gave for them: None where none could be left out.

    Ever smaller parts are left out, and come back where it does not work without them.
    """
    found = None
    part = len(items)
    while part:
        at = 0
        while at < len(items):
            fewer = [*items[:at], *items[at + part :]]
            if (given := works(fewer)) is not None:
                items, found = fewer, given
            else:
                at += part
        part //= 2
    return items, found


def values_in_eager(program: Program) -> tuple[dict[str, Any], torch.fx.Node | None]:
    """What each node gives in eager, as it was at once; and the node that eager refuses, if any: it ends there."""
    values: dict[str, Any] = {}
    inputs = iter(map(own_memory, program.inputs))
    running: dict[str, Any] = {}
    with torch.set_grad_enabled(program.train):
        for node in program.graph.graph.nodes:
            if node.op == "output":
                break
            read = lambda used: running[used.name] if isinstance(used, torch.fx.Node) else used  # noqa: E731
            try:
                given = next(inputs) if node.op == "placeholder" else evaluate(
                    program.graph, node, map_aggregate(node.args, read), map_aggregate(node.kwargs, read)
                )  # fmt: skip
            except Exception:
                return values, node
            running[node.name], values[node.name] = given, own_memory(given)
    return values, None


def _ends(nodes: Sequence[torch.fx.Node], values: dict[str, Any]) -> tuple[torch.fx.Node, ...]:
    """The tensors among the results of some nodes that none of them uses."""
    used = {each for node in nodes for each in node.all_input_nodes}
    return tuple(node for node in nodes if node not in used and isinstance(values.get(node.name), torch.Tensor))


def ending_in(program: Program, results: Sequence[torch.fx.Node]) -> Program:
    """The program that gives these results, without what none of them needs."""
    names = {node.name for node in program.graph.graph.nodes if node.op.startswith("call_")}
    return computing(program, names, {}, results)


def computing(
    program: Program, names: set[str], values: dict[str, Any], results: Sequence[torch.fx.Node] | None = None
) -> Program:
    """The program that computes these nodes alone: others are inputs or constants with their `values`, and what
    nobody needs is left out.

    Raises:
        KeyError: the value of a node is needed, and is none that goes into a program.
    """
    wanted = outputs_of(program.graph) if results is None else tuple(results)
    needed = _needed(program, names, wanted)
    given = dict(zip(_inputs_of(program.graph), program.inputs, strict=True))
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, Any] = {}
    inputs: list[Any] = []
    for node in needed:
        value = given[node] if node.op == "placeholder" else values.get(node.name)
        if node.op != "placeholder" and (node.name in names or type(value) in _NUMBERS):
            continue
        if node.op != "placeholder" and not isinstance(value, torch.Tensor):
            raise KeyError(node.name)
        made[node] = graph.placeholder(node.name)
        inputs.append(value)
    for node in needed:
        if node.op.startswith("call_") and node.name in names:
            args, kwargs = (map_aggregate(part, lambda item: made.get(item, item)) for part in (node.args, node.kwargs))
            made[node] = graph.create_node(node.op, node.target, args, kwargs, node.name)
            made[node].meta = dict(node.meta)
        elif node not in made:
            made[node] = values[node.name]
    graph.output(tuple(made.get(item, item) for item in wanted))
    return replace(program, graph=torch.fx.GraphModule(program.graph, graph), inputs=tuple(inputs))


def _needed(program: Program, names: set[str], results: Sequence[Any]) -> list[torch.fx.Node]:
    """The nodes that results come from where the named ones are computed, in their order.

    What writes, and what has no result, is needed if it is computed and stands before the last that is.
    """
    needed = {item for item in results if isinstance(item, torch.fx.Node)}
    is_behind = True
    for node in reversed(program.graph.graph.nodes):
        is_behind = is_behind and node not in needed
        if not node.op.startswith("call_") or node.name not in names:
            continue
        if writes(node) or (not node.users and not is_behind and node.meta.get("example_value") is None):
            needed.add(node)
        if node in needed:
            needed |= set(node.all_input_nodes)
    return [node for node in program.graph.graph.nodes if node in needed]


def _inputs_of(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def sizes(program: Program) -> list[int]:
    """The sizes of the inputs' dimensions, those first that most elements are behind."""
    weights: dict[int, int] = {}
    for value in program.inputs:
        for size in set(value.shape) if isinstance(value, torch.Tensor) else ():
            weights[size] = weights.get(size, 0) + value.numel()
    return sorted((size for size in weights if size > 1), key=lambda size: -weights[size])


def with_size(program: Program, size: int, wanted: int, *, literals: bool) -> Program | None:
    """The program with `wanted` in the place of a size of its inputs, and of equal numbers in its code; None where
    there are no such numbers and they are asked not to be changed.
    """
    found = False

    def changed(item: Any) -> Any:
        nonlocal found
        if type(item) is not int or item != size:
            return item
        found = True
        return wanted if literals else item

    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph.graph, {}))
    for node in graph.nodes:
        if node.op.startswith("call_"):
            node.args, node.kwargs = map_aggregate(node.args, changed), map_aggregate(node.kwargs, changed)
    inputs = tuple(
        _cut(value, size, wanted) if isinstance(value, torch.Tensor) else changed(value) for value in program.inputs
    )
    if not literals and not found:
        return None
    return replace(program, graph=torch.fx.GraphModule(program.graph, graph), inputs=inputs)


def _cut(value: torch.Tensor, size: int, wanted: int) -> torch.Tensor:
    """The first elements of each dimension of this size, with what strides it had, in order."""
    part = value.detach()[tuple(slice(0, wanted if each == size else each) for each in value.shape)]
    made = own_memory(part) if 0 in value.stride() else part.clone()
    return made.requires_grad_(value.requires_grad)
