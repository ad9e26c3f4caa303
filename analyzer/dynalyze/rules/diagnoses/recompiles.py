"""Functions that were compiled again, and those that reached the recompile limit."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Finding, Impact, Recompile, Report
from dynalyze.rules.rule import Rule

_MOST_CHANGES = 3


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
    again = f"{name} was compiled again{'' if times == 1 else f' {times} times'}"
    changes = list(dict.fromkeys(_change(recompile) for recompile in group if recompile.guard))
    shown = "; ".join(changes[:_MOST_CHANGES]) + ("; ..." if len(changes) > _MOST_CHANGES else "")
    return (3 if limited else 400 - min(times, 99)), Finding(
        rule="recompile-limit" if limited else "recompile",
        severity="error" if limited else "warning",
        title=f"{name} reached the recompile limit and runs in eager from there on" if limited else again,
        location=first.location,
        evidence=[recompile.id for recompile in group],
        advice=f"Keep this the same from call to call: {shown}" if shown else "Find out what changes between calls.",
        impact=Impact(spent, "spent compiling again") if (spent := _seconds(group)) is not None else None,
    )


def _seconds(group: list[Recompile]) -> float | None:
    """What the recompiles took, where all of them were timed."""
    times = [recompile.seconds for recompile in group if recompile.cause != "limit"]
    known = [seconds for seconds in times if seconds is not None]
    return round(sum(known), 6) if known and len(known) == len(times) else None


def _change(recompile: Recompile) -> str:
    """What changed, as "x.size()[1] went from 5 to 6"; the guard itself where its parts are not known."""
    if recompile.source and recompile.expected is not None and recompile.actual is not None:
        return f"{recompile.source} went from {recompile.expected} to {recompile.actual}"
    return recompile.guard.splitlines()[0]


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
