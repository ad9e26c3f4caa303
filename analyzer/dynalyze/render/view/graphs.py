"""The graphs of the page: the stages down to kernels, inputs, code, and which lines became which kernels."""

from __future__ import annotations

from collections.abc import Sequence

from dynalyze.registry import modules
from dynalyze.render.view.links import MAX_GRAPHS, Anchors, Index, Link, Listed, first, place
from dynalyze.report import (
    Direction,
    Graph,
    GraphCode,
    GraphInput,
    Kernel,
    KernelKind,
    LineKey,
    Location,
    Report,
    SavedTensor,
    StageName,
)
from dynalyze.text.amounts import exact_size
from dynalyze.text.escape import clipped

MAX_LINES = 100
MAX_KERNELS = 20
MAX_ROWS = 60
MAX_OPS = 30
MAX_NAMES = 12
_MAX_CODE = 120
_MAX_NAME = 300

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
KERNEL_KINDS: dict[KernelKind, str] = {
    "cpp": "generated C++",
    "triton": "generated Triton",
    "extern": "library call",
    "fallback": "eager kernel",
    "other": "generated",
}


_Line = tuple[Location, list[tuple[Kernel, str, int]]]
"""A line with the kernels that it is in: each with its anchor and how many of its calls are of this line."""


class KernelLineView:
    """A line of source. `uses` has a list of kernels for each direction: the link to one, and its calls."""

    def __init__(self, line: _Line, anchor: str, directions: list[Direction], links: Index) -> None:
        location, used = line[0], first(line[1], MAX_KERNELS)
        self.anchor = anchor
        self.place = links.place(location).short
        self.code = clipped(location.code or "", _MAX_CODE)
        self.uses: list[list[tuple[Link, int]]] = [[] for _ in directions]
        for kernel, kernel_anchor, calls in used.items:
            link = Link(clipped(kernel.name, _MAX_NAME), kernel_anchor)
            self.uses[directions.index(kernel.direction)].append((link, calls))
        self.omitted = used.omitted


class KernelLinesView:
    """The lines in the order of the source. Kernels without an anchor are named all the same.

    `directions` are the columns of kernels. `anchors` and `kernels` tell where each line stands and in how many
    kernels it is.
    """

    def __init__(
        self, graph: str, kernels: Sequence[Kernel], kernel_anchors: Sequence[str], anchors: Anchors, links: Index
    ) -> None:
        found: dict[LineKey, _Line] = {}
        for at, kernel in enumerate(kernels):
            anchor = kernel_anchors[at] if at < len(kernel_anchors) else ""
            for number, location in enumerate(kernel.places):
                calls = kernel.place_calls[number] if number < len(kernel.place_calls) else kernel.calls
                found.setdefault(location.at, (location, []))[1].append((kernel, anchor, calls))
        keys = first(sorted(found), MAX_LINES)
        self.anchors = {key: anchors.claim(f"{graph}-line-{number}") for number, key in enumerate(keys.items, 1)}
        self.kernels = {key: len(found[key][1]) for key in keys.items}
        self.directions = list(dict.fromkeys(kernel.direction for kernel in kernels if kernel.places))
        self.shown = keys.map(lambda key: KernelLineView(found[key], self.anchors[key], self.directions, links))
        self.with_code = any(item.code for item in self.shown.items)


class KernelView:
    """A kernel; `sources` are places that it came from, each with the anchor of its line in the table of lines."""

    def __init__(self, item: Kernel, anchor: str, lines: dict[LineKey, str]) -> None:
        places = first(item.places, MAX_NAMES)
        self.anchor = anchor
        self.fact = item
        self.sources = [(place(each).short, lines.get(each.at, "")) for each in places.items]
        self.sources_omitted = places.omitted + item.places_omitted


class GraphView:
    """A graph with its kernels. `most` is the number of its commonest operation, `size` that of all inputs together.

    `aten` are its ATen operations, `after` those after Inductor's passes, `calls` those of kernels: "4 + 6" of the
    forward graph and the backward one, "" where they are unknown.
    """

    def __init__(self, graph: Graph, kernels: list[Kernel], links: Index, anchors: Anchors) -> None:
        anchor = links.fact(graph.id).anchor
        named = [anchors.claim(f"{anchor}-kernel-{number}") for number in range(1, min(len(kernels), MAX_ROWS) + 1)]
        self.fact = graph
        self.anchor = anchor
        self.lines = KernelLinesView(anchor, kernels, named, anchors, links)
        self.place = links.place(graph.location) if graph.location else None
        self.compilation = links.compilation(graph.process, graph.epoch, graph.compile_id)
        self.aten, self.after, self.calls = (_number(graph, name) for name in ("aten", "post_grad", "kernels"))
        self.size = _total_size(graph.inputs)
        self.most = max(graph.histogram.values(), default=1) or 1
        self.ops = first(list(graph.histogram.items()), MAX_OPS)
        self.inputs = first(graph.inputs, MAX_ROWS)
        saved = [(each, links.place(each.place) if each.place is not None else None) for each in graph.saved]
        self.saved = Listed(saved, len(saved) + graph.saved_omitted)
        again = [(each, links.place(each.place) if each.place is not None else None) for each in graph.recomputed]
        self.recomputed = Listed(again, len(again) + graph.recomputed_omitted)
        rows = [KernelView(item, own, self.lines.anchors) for item, own in zip(kernels, named, strict=False)]
        self.kernels = Listed(rows, len(kernels))
        self.several_directions = len({item.direction for item in kernels}) > 1
        self.tracked = any(item.provenance == "inductor" for item in kernels)
        self.untold = sum(not item.places for item in kernels)


class GraphsView:
    """Every graph, in the order in which they were compiled. `compiling` and `per_call` are times by a graph's id: what
    compiling it took, and what it takes of a call, where that was measured.
    """

    def __init__(self, report: Report, links: Index, anchors: Anchors) -> None:
        kernels: dict[str, list[Kernel]] = {}
        for kernel in report.kernels:
            kernels.setdefault(kernel.graph, []).append(kernel)
        self.shown = first(report.graphs, MAX_GRAPHS).map(
            lambda graph: GraphView(graph, kernels.get(graph.id, []), links, anchors)
        )
        took = {item.key: item.whole_seconds for item in report.compilations}
        self.compiling = {each.id: took.get((each.process, each.epoch, each.compile_id)) for each in report.graphs}
        timed = [each.graph_times(report) for each in modules("view") if hasattr(each, "graph_times")]
        spent = {name: ms for each in timed for name, ms in each.items()}
        self.per_call = {
            each.id: spent[each.compile_id] for each in report.graphs if each.process == 0 and each.compile_id in spent
        }


def _number(graph: Graph, name: StageName) -> str:
    return " + ".join(f"{stage.ops:,}" for stage in graph.stages if stage.stage == name)


def input_shape(item: GraphInput | SavedTensor) -> str:
    """`[s77, 8]`; a number has none."""
    return f"[{', '.join(map(str, item.shape))}]" if item.shape or item.bytes is not None else ""


def code_title(item: GraphCode) -> str:
    """What a file of a graph's code is."""
    stem = item.name.removesuffix(".py")
    return _CODE.get(stem.rstrip("0123456789_"), stem)


def _total_size(inputs: list[GraphInput]) -> str:
    """What all inputs take together, where every tensor among them has a fixed shape."""
    sizes = [item.bytes for item in inputs if item.kind != "symbol"]
    known = [size for size in sizes if size is not None]
    return exact_size(sum(known)) if known and len(known) == len(sizes) else ""
