"""The graphs of the page: the stages down to kernels, the lines that these came from, inputs and code."""

from __future__ import annotations

from dynalyze.registry import modules
from dynalyze.render.view.links import MAX_GRAPHS, Anchors, Index, Listed, first
from dynalyze.report import Graph, GraphCode, GraphInput, Kernel, KernelKind, Report, SavedTensor
from dynalyze.text.amounts import exact_size

MAX_ROWS = 60
MAX_OPS = 30
MAX_NAMES = 12

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


class KernelView:
    """A kernel; `sources` are places that it came from."""

    def __init__(self, item: Kernel, anchor: str, links: Index) -> None:
        places = first(item.places, MAX_NAMES)
        self.anchor = anchor
        self.fact = item
        self.sources = [links.place(each).short for each in places.items]
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
        self.place = links.place(graph.location) if graph.location else None
        self.compilation = links.compilation(graph.process, graph.epoch, graph.compile_id)
        self.aten, self.after, self.calls = (
            " + ".join(f"{stage.ops:,}" for stage in graph.stages if stage.stage == name)
            for name in ("aten", "post_grad", "kernels")
        )
        self.size = _total_size(graph.inputs)
        self.most = max(graph.histogram.values(), default=1) or 1
        self.ops = first(list(graph.histogram.items()), MAX_OPS)
        self.inputs = first(graph.inputs, MAX_ROWS)
        saved = [(each, links.place(each.place) if each.place is not None else None) for each in graph.saved]
        self.saved = Listed(saved, len(saved) + graph.saved_omitted)
        again = [(each, links.place(each.place) if each.place is not None else None) for each in graph.recomputed]
        self.recomputed = Listed(again, len(again) + graph.recomputed_omitted)
        rows = [KernelView(item, own, links) for item, own in zip(kernels, named, strict=False)]
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


def input_shape(item: GraphInput | SavedTensor) -> str:
    """`[s77, 8]`; a number has none."""
    return f"[{', '.join(map(str, item.shape))}]" if item.shape or item.bytes is not None else ""


def code_title(item: GraphCode) -> str:
    stem = item.name.removesuffix(".py")
    return _CODE.get(stem.rstrip("0123456789_"), stem)


def _total_size(inputs: list[GraphInput]) -> str:
    """What all inputs take together, where every tensor among them has a fixed shape."""
    sizes = [item.bytes for item in inputs if item.kind != "symbol"]
    known = [size for size in sizes if size is not None]
    return exact_size(sum(known)) if known and len(known) == len(sizes) else ""
