"""Each compiled graph on its way down: operations at each stage, inputs, kernels, and its code where it is short."""

from __future__ import annotations

from dataclasses import dataclass, field

from dynalyze.events.log import RunLog
from dynalyze.events.types import CompileEnded
from dynalyze.facts.graph_text import GraphText, parse
from dynalyze.facts.graph_texts import CompileTexts, Key, Text, texts_of
from dynalyze.facts.kernels import KernelFound, kernels_of
from dynalyze.facts.sources import Sources
from dynalyze.facts.tensors import graph_input
from dynalyze.report import Compilation, Direction, Graph, GraphCode, Kernel, Location, Stage, StageName

MOST_CODE = 400_000
"""Characters of code in a report, all graphs together: the rest is what --artifacts is for."""

_MOST_TEXT = 60_000
_MOST_PLACES = 20
# Texts that a page shows; the others (a repro, the joint graph, bytecode) are for files.
_SHOWN = ("dynamo", "forward", "backward", "inference", "post_grad", "output_code")


def graphs(run: RunLog, compiled: list[Compilation], sources: Sources) -> tuple[list[Graph], list[Kernel]]:
    """The graphs that Dynamo gave to a backend, and the kernels that they became."""
    owners = {(c.process, c.epoch, c.compile_id): c for c in compiled}
    skips = _cudagraph_skips(run)
    reader = _Reader(run, sources)
    found: list[Graph] = []
    kernels: list[Kernel] = []
    for number, texts in enumerate(texts_of(run), 1):
        graph, own = reader.read(f"g{number}", texts, owners.get(texts.key))
        graph.cudagraph_skip = skips.get(texts.key, "")
        found.append(graph)
        kernels += own
    return found, kernels


def _cudagraph_skips(run: RunLog) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for process, event in run.all():
        if isinstance(event, CompileEnded) and event.metrics.get("cudagraph_skip_reason"):
            found.setdefault((process, event.epoch, event.id), str(event.metrics["cudagraph_skip_reason"]))
    return found


@dataclass
class _Down:
    """What was counted of one graph so far."""

    dynamo: GraphText = field(default_factory=GraphText)
    stages: dict[tuple[StageName, Direction], int] = field(default_factory=dict)
    known_ops: set[str] = field(default_factory=set)
    kernels: dict[tuple[str, Direction], KernelFound] = field(default_factory=dict)

    def count(self, stage: StageName, direction: Direction, ops: int) -> None:
        self.stages[stage, direction] = self.stages.get((stage, direction), 0) + ops


class _Reader:
    """Reads one text at a time; `_room` is how much code the report may still hold."""

    def __init__(self, run: RunLog, sources: Sources) -> None:
        self._run = run
        self._sources = sources
        self._room = MOST_CODE

    def read(self, identity: str, texts: CompileTexts, owner: Compilation | None) -> tuple[Graph, list[Kernel]]:
        graph = Graph(identity, texts.compile_id, texts.process, texts.epoch)
        down = _Down()
        for file, text in texts.named():
            code = self._run.read_text(text.reference)
            _count(down, text, code)
            if text.stage in _SHOWN and code:
                self._keep(graph, file, code)
        graph.ops = len(down.dynamo.nodes)
        if owner is not None:
            graph.location = owner.location
            graph.ops = owner.ops if owner.ops is not None else graph.ops
        graph.histogram = down.dynamo.histogram()
        graph.inputs = [graph_input(*each) for each in down.dynamo.inputs]
        graph.stages = [Stage(stage, direction, ops) for (stage, direction), ops in down.stages.items()]
        return graph, [
            self._kernel(identity, found, direction, down.dynamo) for (_, direction), found in down.kernels.items()
        ]

    def _keep(self, graph: Graph, file: str, code: str) -> None:
        lines = code.splitlines()
        kept, size = 0, 0
        while kept < len(lines) and size + len(lines[kept]) < min(_MOST_TEXT, self._room):
            size += len(lines[kept]) + 1
            kept += 1
        if not kept:
            graph.code_omitted.append(file)
            return
        self._room -= size
        graph.code.append(GraphCode(file, "\n".join(lines[:kept]), len(lines) - kept))

    def _kernel(self, graph: str, found: KernelFound, direction: Direction, dynamo: GraphText) -> Kernel:
        origins = dict.fromkeys(dynamo.origins[node] for node in found.source_nodes if node in dynamo.origins)
        places: list[Location] = [
            self._sources.location(origin.file, origin.line, origin.function) for origin in list(origins)[:_MOST_PLACES]
        ]
        return Kernel(graph, found.name, found.kind, direction, found.calls, found.ops, found.source_nodes, places)


def _count(down: _Down, text: Text, code: str) -> None:
    if not code:
        return
    if text.stage == "output_code":
        kernels = kernels_of(code, down.known_ops)
        if kernels is None:
            return
        down.count("kernels", text.direction, sum(kernel.calls for kernel in kernels))
        for kernel in kernels:
            _merge(down.kernels, kernel, text.direction)
    elif text.stage == "dynamo" or text.is_aten or text.stage == "post_grad":
        read = parse(code)
        stage: StageName = "dynamo" if text.stage == "dynamo" else "post_grad" if text.stage == "post_grad" else "aten"
        down.count(stage, text.direction, len(read.nodes))
        down.known_ops.update(node.op for node in read.nodes)
        if text.stage == "dynamo":
            down.dynamo = read


def _merge(known: dict[tuple[str, Direction], KernelFound], kernel: KernelFound, direction: Direction) -> None:
    """A name stands for one kernel within one output code; library calls of several parts are added up."""
    other = known.setdefault((kernel.name, direction), kernel)
    if other is not kernel:
        other.calls += kernel.calls
        other.ops = list(dict.fromkeys([*other.ops, *kernel.ops]))
        other.source_nodes = list(dict.fromkeys([*other.source_nodes, *kernel.source_nodes]))
