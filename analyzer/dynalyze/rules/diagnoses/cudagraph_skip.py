"""Graphs that were to run as CUDA graphs and do not."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Graph, Report
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


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    skipped: dict[str, list[Graph]] = {}
    for graph in report.graphs:
        if graph.cudagraph_skip:
            skipped.setdefault(_first_line(graph.cudagraph_skip), []).append(graph)
    for reason, graphs in skipped.items():
        advice = next((advice for words, advice in _ADVICE if words in reason), _OTHERWISE)
        number = "A graph runs" if len(graphs) == 1 else f"{len(graphs)} graphs run"
        yield (
            350,
            RULE.finding(
                title=f"{number} without CUDA graphs",
                location=graphs[0].location,
                evidence=[graph.id for graph in graphs],
                advice=f"PyTorch says: {reason}. {advice}",
            ),
        )


def _first_line(reason: str) -> str:
    """The reason without the stack that torch adds to it."""
    return reason.partition(" Found from")[0].strip().partition("\n")[0].rstrip(".")


RULE = Rule(
    id="cudagraph-skip",
    title="CUDA graphs were asked for and skipped",
    severity="warning",
    description=(
        "mode='reduce-overhead' replays whole graphs of kernels at once. Where a graph cannot be recorded, each kernel "
        "is started from Python as before, so the mode gains nothing there."
    ),
    fix="Remove what PyTorch names: return new values instead of writing into arguments, keep every tensor on the GPU.",
    passed="No graph was kept from running as a CUDA graph.",
    judge=_judge,
)
