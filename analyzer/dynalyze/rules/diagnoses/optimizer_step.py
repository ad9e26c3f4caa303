"""The break that torch itself puts before and behind the step of an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import GraphBreak, LineKey, Report
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule

_FIX = "Leave it as it is, or call the optimizer outside of the compiled function."


def _owned(report: Report) -> Iterator[GraphBreak]:
    for found in report.graph_breaks:
        file = (found.stack[-1] if found.stack else found.location).file.replace("\\", "/")
        own = "torch._dynamo.graph_break()" in found.gb_type and file.endswith("/torch/optim/optimizer.py")
        if own or (found.expression.endswith(".step()") and "/torch/optim/lr_scheduler.py" in found.explanation):
            yield found


@Rule(
    title="An optimizer's step is a graph of its own",
    severity="info",
    rank=395,
    link="https://github.com/pytorch/pytorch/issues/104053",
    description="Around the step of an optimizer torch breaks the graph by itself, so that the step is compiled "
    "without gradients and writes into its parameters in place. Where a scheduler has wrapped it, it breaks there too.",
    fix=_FIX,
    owns_breaks=_owned,
)
def optimizer_step(report: Report) -> Iterator[Ranked]:
    lines: dict[LineKey, list[GraphBreak]] = {}
    for found in optimizer_step.breaks(report):
        lines.setdefault(found.location.at, []).append(found)
    for breaks in lines.values():
        yield optimizer_step.finding(
            optimizer_step.title,
            _FIX,
            why="torch asks for this break in the code around each optimizer's step: without it every parameter would "
            "be copied once more, as its source says. A scheduler counts the steps in a wrapper that torch does not "
            "trace.",
            location=breaks[0].location,
            evidence=ids(breaks),
        )
