"""What is worse in the second report: the rules behind `--fail-on regression`, each in one place."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.comparison.types import Breaks, Functions, FunctionSide, Recompiles, Regression, RegressionKind
from dynalyze.report import Outcome, Status

_ENDINGS: tuple[Status, ...] = ("complete", "incomplete", "interrupted", "timed_out", "nothing_compiled", "failed")
"""From good to bad."""


def regressions(
    before: Outcome, after: Outcome, breaks: Breaks, recompiles: Recompiles, functions: Functions
) -> list[Regression]:
    """Everything that got worse, the outcome first."""
    return [
        *_of_outcome(before.status, after.status),
        *_of_breaks(breaks),
        *_of_recompiles(recompiles),
        *_of_functions(functions),
    ]


def _of_outcome(before: Status, after: Status) -> Iterator[Regression]:
    # A run that a person interrupted says nothing about the program.
    if _ENDINGS.index(after) > _ENDINGS.index(before) and after != "interrupted":
        yield Regression("outcome", after)


def _of_breaks(breaks: Breaks) -> Iterator[Regression]:
    for change in (*breaks.new, *breaks.changed):
        if change.after is not None and (change.before is None or change.direction == "worse"):
            yield Regression("effect" if change.before else "break", change.gb_type, change.after.location)


def _of_recompiles(recompiles: Recompiles) -> Iterator[Regression]:
    for change in recompiles.new:
        if change.after is not None:
            kind: RegressionKind = "limit" if change.cause == "limit" else "recompile"
            yield Regression(kind, change.source or change.cause, change.after.location)


def _of_functions(functions: Functions) -> Iterator[Regression]:
    for change in (*functions.new, *functions.changed):
        old = change.before or FunctionSide(change.after.location) if change.after else None
        if old and change.after and _falls(old, change.after):
            yield Regression("compilation", change.function, change.after.location)


def _falls(before: FunctionSide, after: FunctionSide) -> bool:
    """It fails and did not, or it falls back to eager and did neither."""
    if after.failed:
        return not before.failed
    return after.eager > 0 and not before.eager and not before.failed
