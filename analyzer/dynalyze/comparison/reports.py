"""Compares two reports: what a change fixed, what it broke, and what it left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from dynalyze.comparison.breaks import compare_breaks
from dynalyze.comparison.functions import compare_functions, compare_seconds
from dynalyze.comparison.measurements import compare_measurements
from dynalyze.comparison.pairing import Side, files_of, match_files
from dynalyze.comparison.recompiles import compare_recompiles
from dynalyze.comparison.types import (
    Breaks,
    Comparison,
    Difference,
    Functions,
    FunctionSide,
    Recompiles,
    Regression,
    RegressionKind,
    Run,
)
from dynalyze.report import Outcome, Report, Status

# Set by dynalyze itself to a folder of each run.
_OF_THE_RUN = ("variables.TORCH_TRACE",)
_OUTPUTS = ("--json", "--html", "--sarif", "--junit", "--markdown", "--chrome-trace", "--graphml", "--artifacts")
_NO_MATTER = (*_OUTPUTS, "--fail-on", "--timeout", "--python")
_SWITCHES = ("--no-source", "--redact", "--show-values", "--quiet-target", "--no-bench")


def differences(before: Report, after: Report) -> list[Difference]:
    """The environment's differences, then those of the runs, in the order of the first report."""
    old, new = (dict(flat(report.environment)) for report in (before, after))
    found = [
        Difference(name, old.get(name), new.get(name))
        for name in {**old, **new}
        if old.get(name) != new.get(name) and name not in _OF_THE_RUN
    ]
    return found + [Difference(name, tell(before), tell(after)) for name, tell in _TELLS if tell(before) != tell(after)]


def flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The values of an environment by their full names: "packages.numpy"."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from flat(each, f"{prefix}{name}.")
        elif each is not None:
            yield f"{prefix}{name}", each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)


def _target(report: Report) -> str:
    """By its last name: two checkouts have two folders."""
    return PurePath(report.target.spec).name


def _arguments(report: Report) -> str:
    return " ".join(report.target.arguments)


def _options(report: Report) -> str:
    """The words of the command that have a say in what is compiled."""
    words = report.command[: report.command.index("--")] if "--" in report.command else report.command
    kept: list[str] = []
    value_follows = False
    for word in words[1:]:
        name = word.partition("=")[0]
        if not value_follows and name not in (*_NO_MATTER, *_SWITCHES, report.target.spec):
            kept.append(word)
        value_follows = not value_follows and word in _NO_MATTER
    return " ".join(kept)


def _mode(report: Report) -> str:
    return report.capture.mode


def _dynalyze(report: Report) -> str:
    return report.dynalyze


_TELLS: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("target", _target),
    ("arguments", _arguments),
    ("options", _options),
    ("how it was run", _mode),
    ("dynalyze", _dynalyze),
)


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


def compare(before: Report, after: Report, show: Callable[[Report], Report] = lambda report: report) -> Comparison:
    """Match the facts of two reports by cause and code, not by line number alone.

    Facts are matched as they are and told as `show` leaves them (without source, say); it keeps their order.
    """
    old = Side.of(before, show(before), match_files(files_of(before), files_of(after)))
    new = Side.of(after, show(after), {})
    breaks = compare_breaks(old, new)
    recompiles = compare_recompiles(old, new)
    functions = compare_functions(old, new)
    return Comparison(
        before=_run(old.shown),
        after=_run(new.shown),
        differences=differences(old.shown, new.shown),
        breaks=breaks,
        recompiles=recompiles,
        compilations=functions,
        compile_seconds=compare_seconds(before, after),
        measurements=compare_measurements(old, new),
        regressions=regressions(before.outcome, after.outcome, breaks, recompiles, functions),
    )


def _run(report: Report) -> Run:
    lost = report.capture.unreadable_lines + len(report.capture.listener_errors)
    outcome = report.outcome
    return Run(report.dynalyze, report.created, report.target.spec, outcome.status, outcome.seconds, lost)
