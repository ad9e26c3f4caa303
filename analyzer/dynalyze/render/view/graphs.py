"""The graphs of the page: the stages down to kernels, inputs, code, and which lines became which kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dynalyze.render.view.links import Anchors, Index, Link, Listed, Place, Shown, place, shown
from dynalyze.render.view.plots.drawing import Plot
from dynalyze.render.view.plots.treemap import kernel_treemap
from dynalyze.report import (
    Direction,
    Graph,
    GraphCode,
    GraphInput,
    Kernel,
    Location,
    Report,
    Stage,
    StageName,
)
from dynalyze.text.visible import clipped
from dynalyze.words.report import count_of

MAX_LINES = 100
MAX_KERNELS = 20
_MAX_CODE = 120
_MAX_NAME = 300

LineKey = tuple[str, int]


@dataclass(frozen=True)
class Use:
    """One kernel that a line is in; `calls` is "" for a single call."""

    kernel: Link
    calls: str


@dataclass(frozen=True)
class LineView:
    anchor: str
    place: Place
    code: str
    uses: list[list[Use]]
    omitted: int


@dataclass(frozen=True)
class LinesView:
    """`directions` are the columns of kernels; `uses` of a line has a list for each of them.

    `anchors` and `kernels` tell where each line stands and in how many kernels it is.
    """

    items: list[LineView]
    amount: Shown
    directions: list[Direction]
    with_code: bool
    anchors: dict[LineKey, str]
    kernels: dict[LineKey, int]


@dataclass
class _Line:
    location: Location
    used: list[tuple[Kernel, str, int]] = field(default_factory=list)


def lines_view(
    graph: str, kernels: Sequence[Kernel], kernel_anchors: Sequence[str], anchors: Anchors, links: Index
) -> LinesView:
    """The lines in the order of the source. Kernels without an anchor are named all the same."""
    found: dict[LineKey, _Line] = {}
    for index, kernel in enumerate(kernels):
        anchor = kernel_anchors[index] if index < len(kernel_anchors) else ""
        for number, location in enumerate(kernel.places):
            calls = kernel.place_calls[number] if number < len(kernel.place_calls) else kernel.calls
            line = found.setdefault((location.file, location.line), _Line(location))
            line.used.append((kernel, anchor, calls))
    keys, amount = shown(sorted(found), MAX_LINES)
    named = {key: anchors.claim(f"{graph}-line-{number}") for number, key in enumerate(keys, 1)}
    directions = list(dict.fromkeys(kernel.direction for kernel in kernels if kernel.places))
    items = [_line(found[key], named[key], directions, links) for key in keys]
    kernels_of = {key: len(found[key].used) for key in keys}
    return LinesView(items, amount, directions, any(item.code for item in items), named, kernels_of)


def _line(line: _Line, anchor: str, directions: list[Direction], links: Index) -> LineView:
    some, amount = shown(line.used, MAX_KERNELS)
    uses: list[list[Use]] = [[] for _ in directions]
    for kernel, kernel_anchor, calls in some:
        use = Use(Link(clipped(kernel.name, _MAX_NAME), kernel_anchor), f"{calls:,}" if calls > 1 else "")
        uses[directions.index(kernel.direction)].append(use)
    return LineView(
        anchor, links.place(line.location).short, clipped(line.location.code or "", _MAX_CODE), uses, amount.omitted
    )


MAX_GRAPHS = 100
MAX_ROWS = 60
MAX_OPS = 30
MAX_NAMES = 12
MAX_TEXT = 300

_STAGES: dict[StageName, tuple[str, str]] = {
    "dynamo": ("operation", ""),
    "aten": ("ATen operation", ""),
    "post_grad": ("after Inductor’s passes", "after Inductor’s passes"),
    "kernels": ("kernel call", ""),
}
_CODE = {
    "computation_graph": "The graph that Dynamo traced",
    "aot_forward": "ATen operations, forward",
    "aot_backward": "ATen operations, backward",
    "aot_inference": "ATen operations",
    "post_grad": "After Inductor’s passes",
    "post_grad_backward": "After Inductor’s passes, backward",
    "output_code": "The code that Inductor wrote",
    "output_code_backward": "The code that Inductor wrote, backward",
}
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Way:
    """The stages of one direction, "12 operations" first."""

    direction: Direction
    steps: list[str]


@dataclass(frozen=True)
class Source:
    """A line that a kernel came from; `anchor` is that of the line in the table of lines."""

    place: Place
    anchor: str


@dataclass(frozen=True)
class KernelView:
    anchor: str
    fact: Kernel
    sources: list[Source]
    sources_omitted: int


@dataclass(frozen=True)
class GraphView:
    """A graph with its kernels. `most` is the number of its commonest operation."""

    fact: Graph
    anchor: str
    place: Place | None
    ways: list[Way]
    size: str
    most: int
    ops: Listed[tuple[str, int]]
    inputs: Listed[GraphInput]
    kernels: list[KernelView]
    kernels_amount: Shown
    several_directions: bool
    tracked: bool
    untold: int
    lines: LinesView


@dataclass(frozen=True)
class GraphsView:
    items: list[GraphView]
    amount: Shown
    kernels: int
    treemap: Plot | None


def graphs_view(report: Report, links: Index, anchors: Anchors) -> GraphsView:
    """Every graph, in the order in which they were compiled."""
    some, amount = shown(report.graphs, MAX_GRAPHS)
    kernels: dict[str, list[Kernel]] = {}
    for kernel in report.kernels:
        kernels.setdefault(kernel.graph, []).append(kernel)
    views = [_graph(graph, kernels.get(graph.id, []), links, anchors) for graph in some]
    return GraphsView(
        views, amount, len(report.kernels), kernel_treemap(report.kernels, _places(report.kernels, views))
    )


def _graph(graph: Graph, kernels: list[Kernel], links: Index, anchors: Anchors) -> GraphView:
    some, kernels_amount = shown(kernels, MAX_ROWS)
    anchor = links.fact(graph.id).anchor
    named = [anchors.claim(f"{anchor}-kernel-{number}") for number in range(1, len(some) + 1)]
    lines = lines_view(anchor, kernels, named, anchors, links)
    return GraphView(
        fact=graph,
        anchor=anchor,
        place=links.place(graph.location) if graph.location else None,
        ways=_ways(graph),
        size=_total_size(graph.inputs),
        most=max(graph.histogram.values(), default=1) or 1,
        ops=Listed(*shown(list(graph.histogram.items()), MAX_OPS)),
        inputs=Listed(*shown(graph.inputs, MAX_ROWS)),
        kernels=[_kernel(item, own, lines.anchors) for item, own in zip(some, named, strict=True)],
        kernels_amount=kernels_amount,
        several_directions=len({item.direction for item in kernels}) > 1,
        tracked=any(item.provenance == "inductor" for item in kernels),
        untold=sum(not item.places for item in kernels),
        lines=lines,
    )


def _places(kernels: list[Kernel], views: list[GraphView]) -> list[str]:
    """Where the page lists each kernel: those of a graph stand there in the same order."""
    left = {view.fact.id: iter(view.kernels) for view in views}
    rows = (next(left.get(kernel.graph, iter(())), None) for kernel in kernels)
    return [row.anchor if row is not None else "" for row in rows]


def _ways(graph: Graph) -> list[Way]:
    """One way down for each direction, all from the graph that Dynamo traced."""
    start = _step(Stage("dynamo", "", graph.ops))
    directions = list(dict.fromkeys(stage.direction for stage in graph.stages if stage.stage != "dynamo"))
    ways = []
    for direction in directions or [""]:
        below = [_step(stage) for stage in graph.stages if stage.stage != "dynamo" and stage.direction == direction]
        ways.append(Way(direction, below if direction == "backward" else [start, *below]))
    return ways


def _step(stage: Stage) -> str:
    return count_of(stage.ops, *_STAGES[stage.stage])


def input_shape(item: GraphInput) -> str:
    """`[s77, 8]`; a number has none."""
    return f"[{', '.join(map(str, item.shape))}]" if item.shape or item.bytes is not None else ""


def _kernel(item: Kernel, anchor: str, lines: dict[LineKey, str]) -> KernelView:
    places, amount = shown(item.places, MAX_NAMES)
    sources = [Source(place(each).short, lines.get((each.file, each.line), "")) for each in places]
    return KernelView(anchor, item, sources, amount.omitted + item.places_omitted)


def code_title(item: GraphCode) -> str:
    """What a file of a graph's code is."""
    stem = item.name.removesuffix(".py")
    return _CODE.get(stem.rstrip("0123456789_"), stem)


def _total_size(inputs: list[GraphInput]) -> str:
    """What all inputs take together, where every tensor among them has a fixed shape."""
    tensors = [item for item in inputs if item.kind != "symbol" and item.shape is not None]
    sizes = [item.bytes for item in tensors]
    known = [size for size in sizes if size is not None]
    return bytes_words(sum(known)) if known and len(known) == len(sizes) else ""


def bytes_words(number: int) -> str:
    """`1.54 KB`."""
    value = float(number)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
