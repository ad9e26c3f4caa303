"""A compile that ended in an error of the compiler or of the backend, not in a graph break."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.facts.compilations import CUT_OFF
from dynalyze.report import Finding, Report
from dynalyze.rules.forced_sizes import advice, forced_sizes, lines, title
from dynalyze.rules.rule import Rule


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    refusing = {found.id for found in report.graph_breaks if found.effect == "error"}
    ended_by_us = report.outcome.status in ("timed_out", "interrupted")
    for compilation in report.compilations:
        if ended_by_us and compilation.reason == CUT_OFF:
            continue
        if compilation.status == "failed" and refusing.isdisjoint(compilation.breaks):
            forced = forced_sizes(compilation.reason)
            told = lines(report, compilation, forced)
            yield (
                2,
                RULE.finding(
                    title=title(compilation.function, forced) if forced else f"Compiling {compilation.function} failed",
                    location=told[0].location if told else compilation.location,
                    evidence=[compilation.compile_id, *(size.id for size in told)],
                    advice=advice(forced, told)
                    if forced
                    else (
                        f"{compilation.reason.rstrip(':') or 'The compiler raised an error'}. Compile it with "
                        'backend="eager", then "aot_eager": the first that fails names the stage to look at.'
                    ),
                ),
            )


RULE = Rule(
    id="compile-failed",
    title="A compile failed",
    severity="error",
    description="Dynamo, AOTAutograd or the backend raised an error while compiling a frame.",
    passed="No compile ended in an error.",
    judge=_judge,
)
