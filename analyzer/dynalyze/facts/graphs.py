"""Each compiled graph on its way down: operations at each stage, inputs, kernels, and its code where it is short."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from dynalyze.capture.events import CompileEnded, CudagraphSkipped, GraphSeen
from dynalyze.events.log import RunLog
from dynalyze.facts.graph_text import GraphText, graph_input, inputs_of, parse
from dynalyze.facts.kernels import CameFrom, KernelFound, Tracked, aot_id, came_from, kernels_of
from dynalyze.facts.source_files import LineOps
from dynalyze.facts.sources import LONGEST_LINE, Sources
from dynalyze.facts.stacks import Places
from dynalyze.facts.unrolled import top_line
from dynalyze.report import (
    Compilation,
    CompilationKey,
    Direction,
    Graph,
    GraphCode,
    GraphInput,
    Kernel,
    LineKey,
    Location,
    Recomputed,
    SavedTensor,
    Stage,
    StageName,
)

_FILES = {"dynamo": "computation_graph", "transformed": "transformed_code", "runnable": "fx_graph_runnable"}
KERNEL_NOTES = ("kernel_nodes", "kernel_stacks")
"""Stages that are no code: where the kernels of an output code came from, where Inductor tracked it."""
_AOT: dict[str, Direction] = {"joint": "", "forward": "forward", "backward": "backward", "inference": "inference"}
# Stages of one lowering; Inductor writes the output code last, and that alone names the graph it is of.
_LOWERED = ("post_grad", "runnable")


@dataclass(frozen=True)
class Text:
    """One text. `part` is AOTAutograd's id of the graph: a backend may cut one Dynamo graph into several."""

    stage: str
    reference: str
    direction: Direction = ""
    part: str = ""


@dataclass
class CompileTexts:
    """The texts of one compile id, in the order in which they came."""

    process: int
    epoch: int
    compile_id: str
    attempt: int = 0
    texts: list[Text] = field(default_factory=list)

    @property
    def key(self) -> CompilationKey:
        return self.process, self.epoch, self.compile_id

    def named(self) -> Iterator[tuple[str, Text]]:
        """Each text with the name of its file, as users of vLLM's debug folders know them."""
        taken: dict[str, int] = {}
        for text in self.texts:
            stem = f"aot_{text.stage}" if text.stage in _AOT else _FILES.get(text.stage, text.stage)
            if text.stage not in _AOT and text.direction == "backward":
                stem += "_backward"
            taken[stem] = taken.get(stem, 0) + 1
            suffix = ".json" if text.stage in KERNEL_NOTES else ".py"
            yield (f"{stem}{suffix}" if taken[stem] == 1 else f"{stem}_{taken[stem]}{suffix}"), text


def texts_of(run: RunLog) -> list[CompileTexts]:
    """Every compile that gave a graph to a backend. One that restarted holds its last attempt."""
    found: dict[CompilationKey, CompileTexts] = {}
    for process, event in run.all():
        if not isinstance(event, GraphSeen):
            continue
        compile_ = found.get((process, event.epoch, event.id))
        if event.stage == "dynamo":
            compile_ = CompileTexts(process, event.epoch, event.id, event.attempt)
            found[compile_.key] = compile_
        if compile_ is not None:
            _add(compile_.texts, event, run)
    return list(found.values())


def _add(texts: list[Text], event: GraphSeen, run: RunLog) -> None:
    if event.stage in _AOT:
        texts.append(Text(event.stage, event.text, _AOT[event.stage]))
    elif event.stage in _LOWERED:
        # AOTAutograd calls what comes into a backward graph tangents.
        backward = any(name.startswith(_FROM_BEHIND) for name, _ in inputs_of(run.read_text(event.text)))
        _put(texts, Text(event.stage, event.text, "backward" if backward else ""))
    elif event.stage == "output_code":
        _add_code(texts, event.text, run.read_text(event.text))
    elif event.stage in KERNEL_NOTES:
        # What was tracked of the last output code; it names neither that code nor its direction.
        code = next((text for text in reversed(texts) if text.stage == "output_code"), None)
        if code is not None and code.part:
            _put(texts, Text(event.stage, event.text, code.direction, code.part))
    else:
        _put(texts, Text(event.stage, event.text))


def _add_code(texts: list[Text], reference: str, code: str) -> None:
    """Add output code, and give its part's id to the texts that led to it."""
    part, direction = aot_id(code)
    new = Text("output_code", reference, direction, part)
    if not part:
        texts.append(new)
        return
    pending = [text for text in texts if text.stage in _LOWERED and not text.part]
    texts[:] = [text for text in texts if text not in pending]
    for text in pending:
        _put(texts, dataclasses.replace(text, part=part, direction=direction))
    _put(texts, new)


def _put(texts: list[Text], new: Text) -> None:
    """Add a text; what is written again of the same part (Inductor may compile it twice) counts once."""
    for at, text in enumerate(texts):
        if (text.stage, text.part) == (new.stage, new.part):
            texts[at] = new
            return
    texts.append(new)


MOST_CODE = 400_000
"""Characters of code in a report, all graphs together: the rest is what --artifacts is for."""

_MOST_TEXT = 60_000
_MOST_PLACES = 50
_MOST_SAVED = 60
_MOST_RECOMPUTED = 60
_GIVEN, _FROM_BEHIND = "primals_", "tangents_"
"""AOTAutograd's names for inputs of a forward graph, and for what comes into a backward graph from behind."""
_VIEWS = frozenset(
    {
        "getitem", "aten.view", "aten.permute", "aten.t", "aten.transpose", "aten.expand", "aten.unsqueeze",
        "aten.squeeze", "aten.slice", "aten.select", "aten.alias", "aten.detach", "aten.as_strided", "aten.reshape",
        "aten.split", "aten.split_with_sizes", "aten.unbind", "aten._unsafe_view", "aten.diagonal", "aten.unfold",
    }
)  # fmt: skip
_COUNTED: dict[str, StageName] = {
    "dynamo": "dynamo", "post_grad": "post_grad", "forward": "aten", "backward": "aten", "inference": "aten",
}  # fmt: skip
# Texts that a page shows; the others (a repro, the joint graph, bytecode) are for files.
_SHOWN = (*_COUNTED, "output_code")


def graphs(
    run: RunLog, compiled: list[Compilation], sources: Sources, places: Places | None = None,
    compiles: list[CompileTexts] | None = None, lines: LineOps | None = None,
) -> tuple[list[Graph], list[Kernel]]:  # fmt: skip
    """The graphs that Dynamo gave to a backend, and the kernels that they became; `compiles` is what texts_of gives.

    `lines` is filled with the operations of each line, graph by graph.
    """
    owners = {c.key: c for c in compiled}
    skips = _cudagraph_skips(run)
    reader = _GraphReader(run, sources, places or Places(), {} if lines is None else lines)
    found: list[Graph] = []
    kernels: list[Kernel] = []
    for number, texts in enumerate(texts_of(run) if compiles is None else compiles, 1):
        graph, own = reader.read(f"g{number}", texts, owners.get(texts.key))
        graph.cudagraph_skip = skips.get(texts.key, "")
        found.append(graph)
        kernels += own
    return found, kernels


def _cudagraph_skips(run: RunLog) -> dict[CompilationKey, str]:
    """Why a compilation has no CUDA graph; a log has only what was known when it was compiled."""
    skips: dict[CompilationKey, str] = {}
    for process, event in run.all():
        if isinstance(event, CudagraphSkipped):
            skips.setdefault((process, event.epoch, event.id), event.reason)
        elif isinstance(event, CompileEnded) and event.metrics.get("cudagraph_skip_reason"):
            skips.setdefault((process, event.epoch, event.id), str(event.metrics["cudagraph_skip_reason"]))
    return skips


@dataclass(frozen=True)
class BackwardGraph:
    """A backward graph beside the forward graph that it goes with, None where there is no text of that.

    `takes` are the tensors that the forward graph leaves to it, parameters and inputs of the forward included, in the
    order in which autograd saves them.
    """

    text: GraphText
    takes: list[GraphInput]
    forward: GraphText | None

    @property
    def kept(self) -> list[GraphInput]:
        """What the forward graph has computed."""
        return [each for each in self.takes if not each.name.startswith(_GIVEN)]

    def op(self, name: str) -> str:
        """What has computed a tensor."""
        return next((node.op for node in self.forward.nodes if node.name == name), "") if self.forward else ""

    def origin(self, name: str) -> Location | None:
        return self.forward.origins.get(name) if self.forward else None

    def recomputed(self) -> dict[Location | None, list[str]]:
        """Operations of the forward graph that run here once more, by line."""
        done = {(node.name, node.op) for node in self.forward.nodes} if self.forward else set()
        found: dict[Location | None, list[str]] = {}
        for node in self.text.nodes:
            # AOTAutograd copies them out of one graph, in which each has a name of its own.
            if (node.name, node.op) in done and node.op not in _VIEWS:
                found.setdefault(self.origin(node.name), []).append(node.op)
        return found


def backward_graphs(run: RunLog) -> list[BackwardGraph]:
    """Every backward graph of a run, in the order in which they were compiled."""
    found: list[BackwardGraph] = []
    for texts in texts_of(run):
        read = [(text.stage, parse(run.read_text(text.reference))) for text in texts.texts if text.stage in _AOT]
        forward = [text for stage, text in read if stage == "forward"]
        found += [_backward(text, forward) for stage, text in read if stage == "backward"]
    return found


def _backward(text: GraphText, forward: list[GraphText]) -> BackwardGraph:
    takes = [graph_input(*each) for each in text.inputs if not each[0].startswith(_FROM_BEHIND)]
    takes = [each for each in takes if each.kind != "symbol"]
    # AOTAutograd names what it saves alike in both graphs; a backend's parts may have come in any order.
    names = {each.name for each in takes}
    return BackwardGraph(text, takes, max(forward, key=lambda each: _shared(each, names), default=None))


def _shared(forward: GraphText, names: set[str]) -> int:
    return sum(node.name in names for node in forward.nodes)


@dataclass
class _Down:
    """What was counted of one graph so far."""

    dynamo: GraphText = field(default_factory=GraphText)
    stages: Counter[tuple[StageName, Direction]] = field(default_factory=Counter)
    known_ops: set[str] = field(default_factory=set)
    post_grad: dict[str, dict[str, Location]] = field(default_factory=dict)
    forward: list[GraphText] = field(default_factory=list)
    backward: list[BackwardGraph] = field(default_factory=list)
    tracked: dict[str, Tracked] = field(default_factory=dict)
    complex: dict[LineKey, Location] = field(default_factory=dict)
    kernels: dict[tuple[str, Direction], tuple[KernelFound, CameFrom]] = field(default_factory=dict)

    def named(self, text: Text) -> dict[str, Location]:
        """The line of each node that a comment in this output code can name.

        Comments of a backward graph name its own nodes, those of any other the nodes that Dynamo traced.
        """
        lowered = self.post_grad.get(text.part, {})
        own, other = (lowered, self.dynamo.origins) if text.direction == "backward" else (self.dynamo.origins, lowered)
        return {**other, **own}


@dataclass
class _GraphReader:
    """Reads one text at a time; `_room` is how much code the report may still hold."""

    _run: RunLog
    _sources: Sources
    _places: Places
    _lines: LineOps
    _room: int = field(default_factory=lambda: MOST_CODE)

    def read(self, identity: str, texts: CompileTexts, owner: Compilation | None) -> tuple[Graph, list[Kernel]]:
        graph = Graph(identity, texts.compile_id, texts.process, texts.epoch)
        down = _Down(tracked=self._tracked(texts))
        for file, text in texts.named():
            if text.stage in KERNEL_NOTES:
                continue
            code = self._run.read_text(text.reference)
            if code and text.stage == "output_code":
                self._count_kernels(down, text, code)
            elif code:
                _count_ops(down, text, code)
            if text.stage in _SHOWN and code:
                self._keep(graph, file, code)
        graph.ops = len(down.dynamo.nodes)
        for origin in down.dynamo.origins.values():
            ops = self._lines.setdefault(origin.at, {})
            ops[identity] = ops.get(identity, 0) + 1
        if owner is not None:
            graph.location = owner.location
            graph.ops = owner.ops if owner.ops is not None else graph.ops
        graph.top_line = top_line(down.dynamo, self._sources, graph.location)
        graph.histogram = down.dynamo.histogram()
        graph.inputs = [graph_input(*each) for each in down.dynamo.inputs]
        self._add_saved(graph, down)
        graph.complex_lines = [self._location(origin) for origin in list(down.complex.values())[:_MOST_PLACES]]
        graph.stages = [Stage(stage, direction, ops) for (stage, direction), ops in down.stages.items()]
        return graph, [
            self._kernel(identity, found, direction, origin) for (_, direction), (found, origin) in down.kernels.items()
        ]

    def _add_saved(self, graph: Graph, down: _Down) -> None:
        """What backward graphs take that their forward graphs have computed, the largest first."""
        tensors = []
        for backward in down.backward:
            for each in backward.kept:
                place = self._place(backward.origin(each.name))
                tensors.append(
                    SavedTensor(each.name, backward.op(each.name), each.dtype, each.shape, each.bytes, place)
                )
        tensors.sort(key=lambda tensor: -(tensor.bytes or 0))
        graph.saved, graph.saved_omitted = tensors[:_MOST_SAVED], max(0, len(tensors) - _MOST_SAVED)
        graph.saved_bytes = sum(tensor.bytes or 0 for tensor in tensors)
        again = [Recomputed(ops, self._place(at)) for each in down.backward for at, ops in each.recomputed().items()]
        again.sort(key=lambda line: -len(line.ops))
        graph.recomputed, graph.recomputed_omitted = again[:_MOST_RECOMPUTED], max(0, len(again) - _MOST_RECOMPUTED)

    def _tracked(self, texts: CompileTexts) -> dict[str, Tracked]:
        """What Inductor tracked of each part; a record that makes no sense is counted as an unreadable line."""
        found: dict[str, Tracked] = {}
        for text in texts.texts:
            if text.stage in KERNEL_NOTES:
                tracked = found.setdefault(text.part, Tracked())
                if not tracked.take(text.stage, self._run.read_text(text.reference)):
                    self._run.unreadable += 1
        return found

    def _count_kernels(self, down: _Down, text: Text, code: str) -> None:
        kernels = kernels_of(code, down.known_ops)
        if kernels is None:
            return
        down.stages["kernels", text.direction] += sum(kernel.calls for kernel in kernels)
        named, tracked = down.named(text), down.tracked.get(text.part, Tracked())
        for kernel in kernels:
            # A name stands for one kernel within one output code; library calls of several parts are added up.
            origin = came_from(kernel, tracked, named, self._places)
            known = down.kernels.setdefault((kernel.name, text.direction), (kernel, origin))
            if known[0] is not kernel:
                known[0].merge(kernel)
                known[1].merge(origin)

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

    def _kernel(self, graph: str, found: KernelFound, direction: Direction, origin: CameFrom) -> Kernel:
        lines = list(origin.lines.values())
        return Kernel(
            graph, found.name, found.kind, direction, found.calls, found.ops, origin.source_nodes,
            places=[self._location(line) for line in lines[:_MOST_PLACES]],
            place_calls=[origin.calls[line.at] for line in lines[:_MOST_PLACES]],
            places_omitted=max(0, len(lines) - _MOST_PLACES),
            post_grad_nodes=origin.post_grad_nodes,
            provenance=origin.provenance,
        )  # fmt: skip

    def _place(self, origin: Location | None) -> Location | None:
        return None if origin is None else self._location(origin)

    def _location(self, origin: Location) -> Location:
        found = self._sources.location(origin.file, origin.line, origin.function)
        # The file may be gone, or on another machine: torch quotes the line too.
        return found if found.code or not origin.code else replace(found, code=origin.code[:LONGEST_LINE])


def _count_ops(down: _Down, text: Text, code: str) -> None:
    stage = _COUNTED.get(text.stage)
    if stage is None:
        return
    read = parse(code)
    down.stages[stage, text.direction] += len(read.nodes)
    down.known_ops.update(node.op for node in read.nodes)
    for node in read.complex:
        if (origin := read.origins.get(node.name)) is not None:
            down.complex.setdefault(origin.at, origin)
    if text.stage == "forward":
        down.forward.append(read)
    elif text.stage == "backward":
        down.backward.append(_backward(read, down.forward))
    if stage == "dynamo":
        down.dynamo = read
    elif stage == "post_grad":
        down.post_grad[text.part] = read.origins
