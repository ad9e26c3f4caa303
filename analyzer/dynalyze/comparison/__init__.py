"""Compares two reports: what a change fixed, what it broke, and what it left alone."""

from __future__ import annotations

from collections.abc import Callable

from dynalyze.comparison.breaks import compare_breaks
from dynalyze.comparison.functions import compare_functions, compare_seconds
from dynalyze.comparison.measurements import compare_measurements
from dynalyze.comparison.places import Side, files_of, match_files
from dynalyze.comparison.recompiles import compare_recompiles
from dynalyze.comparison.regressions import regressions
from dynalyze.comparison.settings import differences
from dynalyze.comparison.types import Comparison, Run
from dynalyze.report import Report


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
