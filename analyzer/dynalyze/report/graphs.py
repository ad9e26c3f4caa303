"""Graphs on their way down: what goes in, their code and operations, what is kept for backward, and the kernels."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dynalyze.report.code import Location
from dynalyze.report.sensitivity import CudagraphSkip, Dtype, Holds, Name, Quote, Source, Word

CompilationKey = tuple[int, int, str]
"""Process, epoch and compile id: together they name one compilation of a run."""
InputKind = Literal["input", "parameter", "buffer", "symbol"]
StageName = Literal["dynamo", "aten", "post_grad", "kernels"]
Direction = Literal["forward", "backward", "inference", ""]
KernelKind = Literal["cpp", "triton", "extern", "fallback", "other"]
Provenance = Literal["inductor", "comments", ""]


class GraphInput(msgspec.Struct):
    """An input of a Dynamo graph. A dimension that may change is a symbol; `bytes` is None then.

    `source` is what the program calls it, as far as torch's name for it tells.
    """

    name: Quote
    kind: InputKind = "input"
    dtype: Dtype = ""
    shape: list[int | Word] = []
    device: Name = ""
    source: Quote = ""
    bytes: int | None = None


class Stage(msgspec.Struct):
    """How many operations a graph has at one stage on its way down; for kernels, how often one is called."""

    stage: StageName
    direction: Direction
    ops: int


class GraphCode(msgspec.Struct):
    """Code of a graph at one stage, cut at a line where it is long; `lines_omitted` says by how much."""

    name: Word
    text: Source
    lines_omitted: int = 0


class SavedTensor(msgspec.Struct):
    """A tensor that the forward graph computes and keeps for the backward one: `name` is its node's, `place` the line
    that it comes from. Inputs and parameters, which are there anyway, are none.
    """

    name: Quote
    op: Name = ""
    dtype: Dtype = ""
    shape: list[int | Word] = []
    bytes: int | None = None
    place: Location | None = None


class Recomputed(msgspec.Struct):
    """Operations of one line that run in the forward graph and once more in the backward one, instead of what they give
    being kept. Views, which take no time, are none.
    """

    ops: list[Name]
    place: Location | None = None


class TopLine(msgspec.Struct):
    """The line that most operations of a graph come from, and how many. `loop` is the Python loop, unrolled, whose
    rounds put them there, `rounds_ops` with those of all lines that come again; `step` is the function with the line
    that it calls, "" where the line stands in it. `all_ops` are those of the whole graph, with the bodies of
    higher-order operators, which torch's count leaves out.
    """

    location: Location
    ops: int
    loop: Location | None = None
    rounds_ops: int = 0
    step: Source = ""
    all_ops: int = 0


class Graph(msgspec.Struct):
    """One graph that Dynamo gave to a backend. `ops` is torch's own count of the calls in it. `saved` are the largest
    tensors that are kept for its backward, `saved_omitted` how many more, `saved_bytes` the size of all that are known.
    `recomputed` are lines whose operations its backward computes again, those with most first, and `recomputed_omitted`
    how many more. `complex_lines` are those whose operations compute complex numbers, in their order.
    """

    id: Word
    compile_id: Word
    process: int = 0
    epoch: int = 0
    ops: int = 0
    location: Location | None = None
    stages: list[Stage] = []
    histogram: dict[Name, int] = {}
    inputs: list[GraphInput] = []
    code: Annotated[list[GraphCode], Holds.SOURCE] = []
    code_omitted: Annotated[list[Word], Holds.SOURCE] = []
    cudagraph_skip: CudagraphSkip = ""
    saved: list[SavedTensor] = []
    saved_omitted: int = 0
    saved_bytes: int = 0
    recomputed: list[Recomputed] = []
    recomputed_omitted: int = 0
    complex_lines: list[Location] = []
    top_line: Annotated[TopLine | None, Holds.SOURCE] = None

    @property
    def key(self) -> CompilationKey:
        return self.process, self.epoch, self.compile_id


class Kernel(msgspec.Struct):
    """A kernel that Inductor's output code calls: generated (cpp, triton), from a library (extern), or an ATen call
    (fallback). `calls` counts the places that call it; `ops` are the ATen operations in it, `source_nodes` the nodes
    of the Dynamo graph, `places` their lines, and `place_calls` in how many of the calls each of these lines is.
    `provenance` says how the lines are known: tracked by Inductor (then `post_grad_nodes` may be known too), or read
    from comments in its code. `graph`, `name` and `direction` together name one kernel.
    """

    graph: Word
    name: Name
    kind: KernelKind
    direction: Direction = ""
    calls: int = 1
    ops: list[Name] = []
    source_nodes: list[Quote] = []
    places: list[Location] = []
    place_calls: list[int] = []
    places_omitted: int = 0
    post_grad_nodes: list[Quote] = []
    provenance: Provenance = ""
