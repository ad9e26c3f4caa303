"""Compares two reports: what a change fixed, what it broke, and what it left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from dynalyze.comparison.facts import all_seconds, compare_breaks, compare_functions, compare_recompiles
from dynalyze.comparison.measurements import compare_measurements
from dynalyze.comparison.pairing import Side, files_of, match_files
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
    Seconds,
)
from dynalyze.report import Report, Status

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
    return found + [Difference(name, of(before), of(after)) for name, of in _OF_A_RUN if of(before) != of(after)]


def flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The values of an environment by their full names: "packages.numpy"."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from flat(each, f"{prefix}{name}.")
        elif each is not None:
            yield f"{prefix}{name}", each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)


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


_OF_A_RUN: tuple[tuple[str, Callable[[Report], str]], ...] = (
    # By its last name: two checkouts have two folders.
    ("target", lambda report: PurePath(report.target.spec).name),
    ("arguments", lambda report: " ".join(report.target.arguments)),
    ("options", _options),
    ("how it was run", lambda report: report.capture.mode),
    ("dynalyze", lambda report: report.dynalyze),
)


_ENDINGS: tuple[Status, ...] = ("complete", "incomplete", "interrupted", "timed_out", "nothing_compiled", "failed")
"""From good to bad."""


def regressions(
    before: Status, after: Status, breaks: Breaks, recompiles: Recompiles, functions: Functions
) -> Iterator[Regression]:
    """Everything that got worse, the outcome first."""
    # A run that a person interrupted says nothing about the program.
    if _ENDINGS.index(after) > _ENDINGS.index(before) and after != "interrupted":
        yield Regression("outcome", after)
    for broken in (*breaks.new, *breaks.changed):
        if broken.after is not None and (broken.before is None or broken.direction == "worse"):
            yield Regression("effect" if broken.before else "break", broken.gb_type, broken.after.location)
    for again in recompiles.new:
        if again.after is not None:
            kind: RegressionKind = "limit" if again.cause == "limit" else "recompile"
            yield Regression(kind, again.source or again.cause, again.after.location)
    for function in (*functions.new, *functions.changed):
        if function.after is not None and _falls(function.before, function.after):
            yield Regression("compilation", function.function, function.after.location)


def _falls(before: FunctionSide | None, after: FunctionSide) -> bool:
    """It fails and did not, or it falls back to eager and did neither."""
    failed, eager = (before.failed, before.eager) if before is not None else (0, 0)
    if after.failed:
        return not failed
    return after.eager > 0 and not eager and not failed


def compare(before: Report, after: Report, show: Callable[[Report], Report] = lambda report: report) -> Comparison:
    """Match the facts of two reports by cause and code, not by line number alone.

    Facts are matched as they are and told as `show` leaves them (without source, say); it keeps their order.
    """
    old = Side(before, show(before), match_files(files_of(before), files_of(after)))
    new = Side(after, show(after), {})
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
        compile_seconds=Seconds(all_seconds(before), all_seconds(after)),
        measurements=compare_measurements(old, new),
        regressions=list(regressions(before.outcome.status, after.outcome.status, breaks, recompiles, functions)),
    )


def _run(report: Report) -> Run:
    lost = report.capture.unreadable_lines + len(report.capture.listener_errors)
    outcome = report.outcome
    return Run(report.dynalyze, report.created, report.target.spec, outcome.status, outcome.seconds, lost)
