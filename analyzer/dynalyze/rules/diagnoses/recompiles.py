"""Functions that were compiled again, and those that reached the recompile limit."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Recompile, Report
from dynalyze.rules.rule import Rule

_MOST_GUARDS = 3


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    functions: dict[tuple[str, int], list[Recompile]] = {}
    for recompile in report.recompiles:
        functions.setdefault((recompile.location.file, recompile.location.line), []).append(recompile)
    for group in functions.values():
        yield _finding(group)


def _finding(group: list[Recompile]) -> tuple[int, Finding]:
    first = group[0]
    name = first.location.function or "A function"
    limited = any(recompile.cause == "limit" for recompile in group)
    times = sum(recompile.cause != "limit" for recompile in group)
    again = f"{name} was compiled again {times} time{'s' if times != 1 else ''}"
    guards = list(dict.fromkeys(recompile.guard.splitlines()[0] for recompile in group if recompile.guard))
    shown = "; ".join(guards[:_MOST_GUARDS]) + ("; ..." if len(guards) > _MOST_GUARDS else "")
    return (3 if limited else 400 - min(times, 99)), Finding(
        rule="recompile-limit" if limited else "recompile",
        severity="error" if limited else "warning",
        title=f"{name} reached the recompile limit and runs in eager from there on" if limited else again,
        location=first.location,
        evidence=[recompile.id for recompile in group],
        advice=f"Keep what these guards check the same from call to call: {shown}"
        if shown
        else "Find out what changes.",
    )


RULE = Rule(
    id="recompile",
    title="Recompilation",
    severity="warning",
    description=(
        "A guard of the compiled code did not hold for a new call, so the function was compiled again. After the "
        "limit (8 by default) later calls run in eager; that is the finding recompile-limit, an error."
    ),
    passed="Nothing was compiled twice.",
    judge=_judge,
    more_ids=("recompile-limit",),
)
