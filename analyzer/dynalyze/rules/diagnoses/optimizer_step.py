"""The break that torch itself puts before and behind the step of an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import GraphBreak, Report
from dynalyze.rules.rule import Ranked, Rule

_FIX = "Leave it as it is, or call the optimizer outside of the compiled function."


def _owned(report: Report) -> Iterator[GraphBreak]:
    for found in report.graph_breaks:
        file = (found.stack[-1] if found.stack else found.location).file.replace("\\", "/")
        if "torch._dynamo.graph_break()" in found.gb_type and file.endswith("/torch/optim/optimizer.py"):
            yield found


@Rule(
    title="An optimizer's step is a graph of its own",
    severity="info",
    rank=395,
    link="https://github.com/pytorch/pytorch/issues/104053",
    description="Around the step of an optimizer torch breaks the graph by itself, so that the step is compiled "
    "without gradients and writes into its parameters in place.",
    fix=_FIX,
    owns_breaks=_owned,
)
def optimizer_step(report: Report) -> Iterator[Ranked]:
    for found in optimizer_step.breaks(report):
        yield optimizer_step.finding(
            optimizer_step.title,
            _FIX,
            why="torch asks for this break in the code around each optimizer's step: without it every parameter would "
            "be copied once more, as its source says.",
            location=found.location,
            evidence=[found.id],
        )
