"""Compile time that a Python loop makes long: Dynamo unrolls it, round by round, into one graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from dynalyze.report import Graph, Impact, Report
from dynalyze.rules.report_queries import once
from dynalyze.rules.rule import Ranked, Rule

_MANY_OPS = 150
_MOST_OF_IT = 0.4


@Rule(
    title="A Python loop was unrolled into one graph",
    rank=350,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html",
    description="Dynamo runs a Python loop while it traces, so that the graph holds every round of it. Compile time "
    "and memory grow with the rounds, and with a loop over a size each new size is compiled anew.",
)
@once
def unrolled_loop(report: Report) -> Iterator[Ranked]:
    seconds = {each.key: each.whole_seconds for each in report.compilations}
    for graph in report.graphs:
        top = graph.top_line
        if top is None or top.loop is None or top.rounds_ops < _MANY_OPS or top.rounds_ops < _MOST_OF_IT * graph.ops:
            continue
        took = seconds.get(graph.key)
        yield unrolled_loop.finding(
            "A Python loop was unrolled into one graph",
            f"{top.rounds_ops:,} of {graph.ops:,} operations are rounds of this loop, {top.ops:,} from "
            f"{PurePath(top.location.file).name}:{top.location.line}. "
            f"{_step(graph)} A scan (one operator for all rounds) is the other way.",
            why="Read from the graph. Dynamo runs the loop while it traces: the graph holds every round, and the "
            "compiler works on each as if it were other code. The step alone is one small graph that all rounds use.",
            location=top.loop,
            evidence=[graph.id, graph.compile_id],
            impact=Impact(compile_seconds=round(took, 6), what="of compile time") if took else None,
        )


def _step(graph: Graph) -> str:
    """How the step is compiled alone."""
    top = graph.top_line
    assert top is not None
    whole = graph.location.function if graph.location is not None else "the function around it"
    if not top.step:
        return (
            "Compile the step alone: move the body of the loop into a function and compile that, in place of "
            f"compiling `{whole}`."
        )
    once = " once, in `__init__`," if top.step.startswith("self.") else ""
    return f"Compile the step alone: `{top.step} = torch.compile({top.step})`{once} in place of compiling `{whole}`."
