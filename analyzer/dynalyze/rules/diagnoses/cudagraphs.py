"""CUDA graphs: not taken, taken for many sizes, and outputs that the next replay overwrites."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Example, Graph, Location, Report
from dynalyze.report.measurements import Measurement
from dynalyze.rules.report_queries import FROM_RUN, graphs_on_cuda, ids
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of

_FRAME = re.compile(r'File "([^"]+)", line (\d{1,9}), in (\S+)')
_TREES = "https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html"
# What torch says, and what helps against it.
_ADVICE = (
    ("mutat", "Return the new value instead of writing into an argument, or make the tensor a buffer."),
    ("cpu device", "Move every tensor of the graph to the GPU; make constants there too (`device=x.device`)."),
    ("symbolic shapes", "Pad to a few fixed shapes, or compile this part without mode='reduce-overhead'."),
    ("multiple devices", "Keep each compiled function on one device."),
    ("incompatible op", "Move the operation that it names out of the compiled function."),
)  # fmt: skip
_OTHERWISE = "Remove what it names from the compiled function, or compile this part without mode='reduce-overhead'."


@Rule(
    title="CUDA graphs were asked for and skipped",
    rank=350,
    description="mode='reduce-overhead' replays whole graphs of kernels at once. Where a graph cannot be recorded, "
    "each kernel is started from Python as before, so the mode gains nothing there.",
    fix="Remove what PyTorch names: return new values instead of writing into arguments, keep every tensor on the GPU.",
)
def cudagraph_skip(report: Report) -> Iterator[Ranked]:
    skipped: dict[str, list[Graph]] = {}
    for graph in report.graphs:
        if graph.cudagraph_skip:
            # Without the stack that torch adds to it.
            reason = graph.cudagraph_skip.partition(" Found from")[0].strip().partition("\n")[0].rstrip(".")
            skipped.setdefault(reason, []).append(graph)
    for reason, graphs in skipped.items():
        advice = next((advice for words, advice in _ADVICE if words in reason), _OTHERWISE)
        yield cudagraph_skip.finding(
            f"{'A graph runs' if len(graphs) == 1 else f'{len(graphs)} graphs run'} without CUDA graphs",
            f"PyTorch says: {reason}. {advice}",
            location=_place(graphs[0].cudagraph_skip) or graphs[0].location,
            evidence=ids(graphs),
        )


def _place(text: str) -> Location | None:
    """The last line that a stack in torch's words names: the one that the operation, or the output, came from."""
    frames = _FRAME.findall(text)
    return Location(frames[-1][0], int(frames[-1][1]), function=frames[-1][2]) if frames else None


_MANY = 3
_MORE = 1.2
_MODES = ("reduce-overhead", "max-autotune")
_SWITCH = "torch._inductor.config.triton.cudagraphs"
_SKIP = "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs"


@Rule(
    title="CUDA graphs of many sizes",
    rank=360,
    link=_TREES,
    description="mode='reduce-overhead' records a CUDA graph for each size of the inputs, and a recording keeps its "
    "memory as long as the process lives. Sizes that vary freely make it grow. Said only of graphs on a CUDA device.",
    fix="Pad the inputs to a few fixed sizes, or let graphs of changing size run without CUDA graphs: "
    "`torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True`.",
)
def cudagraph_memory(report: Report) -> Iterator[Ranked]:
    # How CUDA graphs were asked for, by whoever compiled.
    modes = [f"mode='{each.options['mode']}'" for each in report.modules if each.options.get("mode") in _MODES]
    if not modes and report.settings.get(_SWITCH) is True:
        modes = [_SWITCH]
    graphs = [graph for graph in graphs_on_cuda(report) if not graph.cudagraph_skip]
    if modes and graphs and report.settings.get(_SKIP) is not True:
        yield from _recorded(report, modes[0], graphs)
    for measured in report.measurements:
        yield from _needs_more(measured)


def _recorded(report: Report, mode: str, graphs: list[Graph]) -> Iterator[Ranked]:
    dynamic = [graph for graph in graphs if any(isinstance(size, str) for each in graph.inputs for size in each.shape)]
    sizes = [each for each in report.recompiles if each.cause in ("shape", "symbolic")]
    if dynamic:
        title = f"{count_of(len(dynamic), 'graph')} of changing size under {mode}: recorded anew for every size"
    elif len(sizes) >= _MANY:
        title = f"{count_of(len(sizes), 'recompile')} over sizes under {mode}: each is recorded by itself"
    else:
        return
    yield cudagraph_memory.finding(
        title,
        "Pad the inputs to a few fixed sizes and run each of them once before serving; or let graphs of "
        f"changing size run without CUDA graphs: `{_SKIP} = True`.",
        why="A CUDA graph holds for one size and keeps its memory for good. Every new size costs a recording and "
        f"adds to it. {FROM_RUN} How much memory that is was not measured.",
        config=f"{_SKIP} = True",
        location=(dynamic or sizes)[0].location,
        evidence=[*ids(dynamic), *ids(sizes)],
    )


def _needs_more(measured: Measurement) -> Iterator[Ranked]:
    memory, counts = measured.memory, measured.counts
    if measured.options.get("mode") not in _MODES or memory is None or memory.kind != "cuda" or counts is None:
        return
    if not memory.ratio or memory.ratio < _MORE or not memory.eager_steady_peak or not counts.cudagraph_replays:
        return
    more = memory.steady_peak - memory.eager_steady_peak
    yield cudagraph_memory.finding(
        f"{measured.configuration} needs {more / 1e6:,.0f} MB more than eager, {memory.ratio:.2f} times as much",
        "Compare it with mode='default', or 'max-autotune-no-cudagraphs'; pad the inputs to a few fixed "
        "sizes where they vary.",
        why=f"Measured, with {count_of(counts.graphs, 'graph')}: CUDA graphs keep their memory between calls.",
        rank=361,
        severity="info",
        evidence=[measured.configuration],
    )


_SAID = re.compile(r"accessing (gradient )?tensor output of CUDAGraphs that has been overwritten")
_OUTPUT = (
    "Clone what you keep of a call before the next one, outside of the compiled function: `output = "
    "model(inputs).clone()`. Only where nothing of an earlier call is kept, call "
    "`torch.compiler.cudagraph_mark_step_begin()` before each instead."
)
_GRADIENT = (
    "Make the gradients outside of the graph: run one step in eager first, or allocate `p.grad = torch.zeros_like(p)` "
    "for each parameter and zero it in place; or set `p.grad = None` before each backward where you do not accumulate."
)


@Rule(
    title="An output of a CUDA graph was overwritten",
    severity="error",
    rank=8,
    of_failure=True,
    link=_TREES,
    description="mode='reduce-overhead' records CUDA graphs, which write their results to the same memory in every "
    "call. A program that keeps the output of one call and reads it after the next is stopped by torch. Known by "
    "torch's own message; without a CUDA device it cannot happen.",
    fix="Clone what is kept of a call, outside of the compiled function; or call "
    "`torch.compiler.cudagraph_mark_step_begin()` before each call where nothing is kept.",
    example=Example("kept = [model(x) for x in batches]", "kept = [model(x).clone() for x in batches]"),
)
def cudagraph_overwritten(report: Report) -> Iterator[Ranked]:
    # What the program, a compile or a measurement ended with.
    texts = (
        ([], report.outcome.message),
        *(([each.compile_id], each.reason) for each in report.compilations),
        *(([each.configuration], each.reason) for each in report.measurements),
        *(([], note) for note in report.capture.notes),
    )
    for evidence, text in texts:
        if (said := _SAID.search(text)) is None:
            continue
        gradient = said[1] is not None
        yield cudagraph_overwritten.finding(
            f"{'A gradient' if gradient else 'An output'} of a CUDA graph was read after a later call had written over "
            "it",
            _GRADIENT if gradient else _OUTPUT,
            why=f"{FROM_RUN} A CUDA graph writes its results to the same memory in every call, so those of the call "
            "before are gone. torch noticed that one of them was read, and stopped.",
            example=None if gradient else cudagraph_overwritten.example,
            location=_place(text) or report.outcome.raised_at,
            evidence=evidence,
        )
        return
