"""CUDA graphs recorded for many sizes: each recording keeps its memory."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Graph, Recompile, Report
from dynalyze.report.measurements import Measurement
from dynalyze.rules.report_queries import FROM_RUN, graphs_on_cuda
from dynalyze.rules.rule import Rule

_RANK = 360
_MANY = 3
_MORE = 1.2
_MODES = ("reduce-overhead", "max-autotune")
_SWITCH = "torch._inductor.config.triton.cudagraphs"
_SKIP = "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs"
_LINK = "https://docs.pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    modes = _modes(report)
    graphs = [graph for graph in graphs_on_cuda(report) if not graph.cudagraph_skip]
    if modes and graphs and report.settings.get(_SKIP) is not True:
        dynamic = [
            graph for graph in graphs if any(isinstance(size, str) for each in graph.inputs for size in each.shape)
        ]
        sizes = [each for each in report.recompiles if each.cause in ("shape", "symbolic")]
        if dynamic or len(sizes) >= _MANY:
            yield _RANK, _recorded(modes[0], dynamic, sizes)
    for measured in report.measurements:
        if (found := _measured(measured)) is not None:
            yield _RANK + 1, found


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
    return RULE.finding(
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
            link=_LINK,
        ),
    )


def _measured(measured: Measurement) -> Finding | None:
    memory, counts = measured.memory, measured.counts
    if measured.options.get("mode") not in _MODES or memory is None or memory.kind != "cuda" or counts is None:
        return None
    if not memory.ratio or memory.ratio < _MORE or not memory.eager_steady_peak or not counts.cudagraph_replays:
        return None
    more = memory.steady_peak - memory.eager_steady_peak
    return RULE.finding(
        title=f"{measured.configuration} needs {more / 1e6:,.0f} MB more than eager, {memory.ratio:.2f} times as much",
        severity="info",
        evidence=[measured.configuration],
        advice=Advice(
            action="Compare it with mode='default', or 'max-autotune-no-cudagraphs'; pad the inputs to a few fixed "
            "sizes where they vary.",
            why=f"Measured, with {_count(counts.graphs, 'graph')}: CUDA graphs keep their memory between calls.",
            link=_LINK,
        ),
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


RULE = Rule(
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
    judge=_judge,
)
