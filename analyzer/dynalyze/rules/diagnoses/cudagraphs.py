"""CUDA graphs: not taken, taken for many sizes, and outputs that the next replay overwrites."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Graph, Location, Recompile, Report
from dynalyze.report.measurements import Measurement
from dynalyze.rules.report_queries import FROM_RUN, graphs_on_cuda
from dynalyze.rules.rule import Rule

# What torch says, and what helps against it.
_ADVICE = (
    ("mutat", "Return the new value instead of writing into an argument, or make the tensor a buffer."),
    ("cpu device", "Move every tensor of the graph to the GPU; make constants there too (`device=x.device`)."),
    ("symbolic shapes", "Pad to a few fixed shapes, or compile this part without mode='reduce-overhead'."),
    ("multiple devices", "Keep each compiled function on one device."),
    ("incompatible op", "Move the operation that it names out of the compiled function."),
)  # fmt: skip
_OTHERWISE = "Remove what it names from the compiled function, or compile this part without mode='reduce-overhead'."


def _judge_skip(report: Report) -> Iterator[tuple[int, Finding]]:
    skipped: dict[str, list[Graph]] = {}
    for graph in report.graphs:
        if graph.cudagraph_skip:
            skipped.setdefault(_first_line(graph.cudagraph_skip), []).append(graph)
    for reason, graphs in skipped.items():
        advice = next((advice for words, advice in _ADVICE if words in reason), _OTHERWISE)
        number = "A graph runs" if len(graphs) == 1 else f"{len(graphs)} graphs run"
        yield (
            350,
            SKIP.finding(
                title=f"{number} without CUDA graphs",
                location=graphs[0].location,
                evidence=[graph.id for graph in graphs],
                advice=f"PyTorch says: {reason}. {advice}",
            ),
        )


def _first_line(reason: str) -> str:
    """The reason without the stack that torch adds to it."""
    return reason.partition(" Found from")[0].strip().partition("\n")[0].rstrip(".")


SKIP = Rule(
    id="cudagraph-skip",
    title="CUDA graphs were asked for and skipped",
    severity="warning",
    description=(
        "mode='reduce-overhead' replays whole graphs of kernels at once. Where a graph cannot be recorded, each kernel "
        "is started from Python as before, so the mode gains nothing there."
    ),
    fix="Remove what PyTorch names: return new values instead of writing into arguments, keep every tensor on the GPU.",
    passed="No graph was kept from running as a CUDA graph.",
    judge=_judge_skip,
)


_RANK_MEMORY = 360
_MANY = 3
_MORE = 1.2
_MODES = ("reduce-overhead", "max-autotune")
_SWITCH = "torch._inductor.config.triton.cudagraphs"
_SKIP = "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs"
_LINK_MEMORY = "https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html"


def _judge_memory(report: Report) -> Iterator[tuple[int, Finding]]:
    modes = _modes(report)
    graphs = [graph for graph in graphs_on_cuda(report) if not graph.cudagraph_skip]
    if modes and graphs and report.settings.get(_SKIP) is not True:
        dynamic = [
            graph for graph in graphs if any(isinstance(size, str) for each in graph.inputs for size in each.shape)
        ]
        sizes = [each for each in report.recompiles if each.cause in ("shape", "symbolic")]
        if dynamic or len(sizes) >= _MANY:
            yield _RANK_MEMORY, _recorded(modes[0], dynamic, sizes)
    for measured in report.measurements:
        if (found := _measured(measured)) is not None:
            yield _RANK_MEMORY + 1, found


def _modes(report: Report) -> list[str]:
    """How CUDA graphs were asked for, by whoever compiled."""
    given = [str(module.options["mode"]) for module in report.modules if module.options.get("mode") in _MODES]
    return [f"mode='{mode}'" for mode in given] or ([_SWITCH] if report.settings.get(_SWITCH) is True else [])


def _recorded(mode: str, dynamic: list[Graph], sizes: list[Recompile]) -> Finding:
    if dynamic:
        title = f"{_count(len(dynamic), 'graph')} of changing size under {mode}: recorded anew for every size"
    else:
        title = f"{_count(len(sizes), 'recompile')} over sizes under {mode}: each is recorded by itself"
    first = dynamic[0].location if dynamic else sizes[0].location
    return MEMORY.finding(
        title=title,
        location=first,
        evidence=[*(each.id for each in dynamic), *(each.id for each in sizes)],
        advice=Advice(
            action="Pad the inputs to a few fixed sizes and run each of them once before serving; or let graphs of "
            f"changing size run without CUDA graphs: `{_SKIP} = True`.",
            why=(
                "A CUDA graph holds for one size and keeps its memory for good. Every new size costs a recording and "
                f"adds to it. {FROM_RUN} How much memory that is was not measured."
            ),
            config=f"{_SKIP} = True",
            link=_LINK_MEMORY,
        ),
    )


def _measured(measured: Measurement) -> Finding | None:
    memory, counts = measured.memory, measured.counts
    if measured.options.get("mode") not in _MODES or memory is None or memory.kind != "cuda" or counts is None:
        return None
    if not memory.ratio or memory.ratio < _MORE or not memory.eager_steady_peak or not counts.cudagraph_replays:
        return None
    more = memory.steady_peak - memory.eager_steady_peak
    return MEMORY.finding(
        title=f"{measured.configuration} needs {more / 1e6:,.0f} MB more than eager, {memory.ratio:.2f} times as much",
        severity="info",
        evidence=[measured.configuration],
        advice=Advice(
            action="Compare it with mode='default', or 'max-autotune-no-cudagraphs'; pad the inputs to a few fixed "
            "sizes where they vary.",
            why=f"Measured, with {_count(counts.graphs, 'graph')}: CUDA graphs keep their memory between calls.",
            link=_LINK_MEMORY,
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


MEMORY = Rule(
    id="cudagraph-memory",
    title="CUDA graphs of many sizes",
    severity="warning",
    description=(
        "mode='reduce-overhead' records a CUDA graph for each size of the inputs, and a recording keeps its memory as "
        "long as the process lives. Sizes that vary freely make it grow. Said only of graphs on a CUDA device."
    ),
    fix=(
        "Pad the inputs to a few fixed sizes, or let graphs of changing size run without CUDA graphs: "
        "`torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True`."
    ),
    passed="CUDA graphs were not recorded for many sizes.",
    judge=_judge_memory,
)


_RANK_OVERWRITTEN = 8
_LINK_OVERWRITTEN = "https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html"
_SAID = re.compile(r"accessing (gradient )?tensor output of CUDAGraphs that has been overwritten")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_OUTPUT = (
    "Clone what you keep of a call before the next one, outside of the compiled function: `output = "
    "model(inputs).clone()`. Only where nothing of an earlier call is kept, call "
    "`torch.compiler.cudagraph_mark_step_begin()` before each instead."
)
_GRADIENT = (
    "Make the gradients outside of the graph: run one step in eager first, or allocate `p.grad = torch.zeros_like(p)` "
    "for each parameter and zero it in place; or set `p.grad = None` before each backward where you do not accumulate."
)


def _judge_overwritten(report: Report) -> Iterator[tuple[int, Finding]]:
    for evidence, text in _texts(report):
        said = _SAID.search(text)
        if said is not None:
            yield _RANK_OVERWRITTEN, _finding(text, evidence, gradient=said[1] is not None)
            return


def _texts(report: Report) -> Iterator[tuple[list[str], str]]:
    """What the program, a compile or a measurement ended with."""
    yield [], report.outcome.message
    yield from (([each.compile_id], each.reason) for each in report.compilations)
    yield from (([each.configuration], each.reason) for each in report.measurements)
    yield from (([], note) for note in report.capture.notes)


def _finding(text: str, evidence: list[str], *, gradient: bool) -> Finding:
    action = _GRADIENT if gradient else _OUTPUT
    return OVERWRITTEN.finding(
        title=f"{'A gradient' if gradient else 'An output'} of a CUDA graph was read after a later call had written "
        "over it",
        location=_made_at(text),
        evidence=evidence,
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} A CUDA graph writes its results to the same memory in every call, so those of the call "
            "before are gone. torch noticed that one of them was read, and stopped.",
            example=None if gradient else OVERWRITTEN.example,
            link=_LINK_OVERWRITTEN,
        ),
    )


def _made_at(text: str) -> Location | None:
    """The line that made the output, the last one that torch names."""
    frames = _FRAME.findall(text)
    return Location(frames[-1][0], int(frames[-1][1]), function=frames[-1][2]) if frames else None


OVERWRITTEN = Rule(
    id="cudagraph-overwritten",
    title="An output of a CUDA graph was overwritten",
    severity="error",
    description=(
        "mode='reduce-overhead' records CUDA graphs, which write their results to the same memory in every call. A "
        "program that keeps the output of one call and reads it after the next is stopped by torch. Known by torch's "
        "own message; without a CUDA device it cannot happen."
    ),
    fix=(
        "Clone what is kept of a call, outside of the compiled function; or call "
        "`torch.compiler.cudagraph_mark_step_begin()` before each call where nothing is kept."
    ),
    example=Example("kept = [model(x) for x in batches]", "kept = [model(x).clone() for x in batches]"),
    passed="No output of a CUDA graph was read too late.",
    judge=_judge_overwritten,
)

RULES = (SKIP, MEMORY, OVERWRITTEN)
