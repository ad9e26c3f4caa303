"""Compares two reports: what a change fixed, what it broke, and what it left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

from dynalyze.comparison.facts import all_seconds, compare_breaks, compare_functions, compare_recompiles
from dynalyze.comparison.pairing import ComparableReport, files_of, match_files
from dynalyze.comparison.types import (
    Breaks,
    ComparedRun,
    Comparison,
    Difference,
    Functions,
    FunctionSide,
    LatencyChange,
    Recompiles,
    Regression,
    RegressionKind,
    Seconds,
)
from dynalyze.report import Report, Status
from dynalyze.report.measurements import Interval, Measurement

# Set by dynalyze itself to a folder of each run.
_OF_THE_RUN = ("variables.TORCH_TRACE",)
_OUTPUTS = ("--json", "--html", "--sarif", "--junit", "--markdown", "--chrome-trace", "--graphml", "--artifacts",
            "--out")  # fmt: skip
_NO_MATTER = (*_OUTPUTS, "--fail-on", "--timeout", "--python")
_SWITCHES = ("--no-source", "--redact", "--show-values", "--quiet-target", "--no-bench")


def differences(before: Report, after: Report) -> list[Difference]:
    """Differences of the environments, then of the runs, in the order of the first report."""
    found = environment_differences(before.environment, after.environment)
    found = [each for each in found if each.name not in _OF_THE_RUN]
    return found + [Difference(name, of(before), of(after)) for name, of in _OF_A_RUN if of(before) != of(after)]


def environment_differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    old, new = dict(_flat(before)), dict(_flat(after))
    return [Difference(name, old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)]


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The values of an environment by their full names: "packages.numpy"."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _flat(each, f"{prefix}{name}.")
        elif each is not None:
            yield f"{prefix}{name}", each if isinstance(each, str) else json.dumps(each, ensure_ascii=False)


def _options(report: Report) -> str:
    """The words of the command that affect what is compiled."""
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


ENDINGS: tuple[Status, ...] = ("complete", "incomplete", "interrupted", "timed_out", "nothing_compiled", "failed")
"""From good to bad."""


def regressions(
    before: Status, after: Status, breaks: Breaks, recompiles: Recompiles, functions: Functions
) -> Iterator[Regression]:
    """Everything that got worse, the outcome first."""
    # A run that a person interrupted says nothing about the program.
    if ENDINGS.index(after) > ENDINGS.index(before) and after != "interrupted":
        yield Regression("outcome", after)
    for broken in (*breaks.new, *breaks.changed):
        if broken.after is not None and (broken.before is None or broken.direction == "worse"):
            yield Regression("effect" if broken.before else "break", broken.name, broken.after.location)
    for again in recompiles.new:
        if again.after is not None:
            kind: RegressionKind = "limit" if again.cause == "limit" else "recompile"
            yield Regression(kind, again.source or again.cause, again.after.location)
    for function in (*functions.new, *functions.changed):
        if function.after is not None and _falls(function.before, function.after):
            yield Regression("compilation", function.function, function.after.location)


def _falls(before: FunctionSide | None, after: FunctionSide) -> bool:
    """Whether a function fails now, or falls back to eager, and did neither."""
    failed, eager = (before.failed, before.eager) if before is not None else (0, 0)
    return not failed and bool(after.failed or (after.eager and not eager))


def compare(before: Report, after: Report) -> Comparison:
    """Two reports compared, with facts matched by cause and code, not by line number alone.

    What may not be shown is removed from the comparison, not from the reports: hidden facts still tell others apart.
    """
    old = ComparableReport(before, match_files(files_of(before), files_of(after)))
    new = ComparableReport(after, {})
    reworded = before.environment.get("torch") != after.environment.get("torch")
    breaks = compare_breaks(old, new, reworded=reworded)
    recompiles = compare_recompiles(old, new, reworded=reworded)
    functions = compare_functions(old, new)
    return Comparison(
        before=_run(before),
        after=_run(after),
        differences=differences(before, after),
        breaks=breaks,
        recompiles=recompiles,
        compilations=functions,
        compile_seconds=Seconds(all_seconds(before), all_seconds(after)),
        measurements=compare_measurements(before, after),
        regressions=list(regressions(before.outcome.status, after.outcome.status, breaks, recompiles, functions)),
    )


def _run(report: Report) -> ComparedRun:
    lost = report.capture.unreadable_lines + len(report.capture.listener_errors)
    outcome = report.outcome
    return ComparedRun(report.dynalyze, report.created, report.target.spec, outcome.status, outcome.seconds, lost)


# Two versions of torch.


def found_again(first: Iterable[Regression], again: Iterable[Regression]) -> list[Regression]:
    """Regressions that a second pair of runs has too, and that are therefore not chance."""
    known = {_identity(each) for each in again}
    return [each for each in first if _identity(each) in known]


def _identity(found: Regression) -> tuple[str, ...]:
    place = (found.location.file, str(found.location.line)) if found.location is not None else ()
    return found.kind, found.what, *place


def settings_changed(before: Report, after: Report) -> list[Difference]:
    """Public settings of torch with different values in both versions: mostly defaults that changed."""
    one, other = _settings(before), _settings(after)
    return [
        Difference(name, str(one[name])[:80], str(other[name])[:80])
        for name in one
        if name in other and one[name] != other[name]
    ]


def _settings(report: Report) -> dict[str, Any]:
    blocks = report.caches.settings if report.caches is not None else []
    named = ((f"{block.of}.{name}", value) for block in blocks[::-1] for name, value in block.values.items())
    return {name: value for name, value in named if "._" not in name}


# Latencies: compared where both measured the same configuration in the same way.

_CONDITIONS = {
    "device": "on different devices",
    "dtype": "with different dtypes",
    "threads": "with different numbers of threads",
    "options": "with different options",
    "calls": "with different numbers of calls in a pass",
}
"""What must agree for two times to be comparable, and what is said where it does not."""


def compare_measurements(before: Report, after: Report) -> list[LatencyChange]:
    """The latencies of each configuration, phase, batch, sequence length and shape that either report measured."""
    old, new = _by_workload(before), _by_workload(after)
    elsewhere = before.environment.get("device") != after.environment.get("device")
    return [_compared(old.get(key), new.get(key), elsewhere) for key in {**old, **new}]


def _by_workload(report: Report) -> dict[Hashable, Measurement]:
    found: dict[Hashable, Measurement] = {}
    for item in report.measurements:
        shape = tuple(sorted(item.shape.items()))
        found.setdefault((item.configuration, item.phase, item.batch, item.sequence, shape), item)
    return found


def _compared(old: Measurement | None, new: Measurement | None, elsewhere: bool) -> LatencyChange:
    known = new or old
    assert known is not None
    result = LatencyChange(
        known.configuration, known.phase, _median(old), _median(new), batch=known.batch, sequence=known.sequence,
        shape=known.shape,
    )  # fmt: skip
    result.speedup_before, result.speedup_after = _speedup(old), _speedup(new)
    result.note = _obstacle(old, new, elsewhere)
    if not result.note and result.before and result.after:
        result.ratio = result.after / result.before
        one, other = result.speedup_before, result.speedup_after
        if one is not None and other is not None:  # Each was measured against its own eager runs.
            result.overlap = one.low <= other.high and other.low <= one.high
    return result


def _obstacle(old: Measurement | None, new: Measurement | None, elsewhere: bool) -> str:
    """Why the two cannot be compared; "" where they can."""
    if old is None or new is None:
        return f"only the {'second' if old is None else 'first'} report has it"
    for item, which in ((old, "first"), (new, "second")):
        if item.status != "valid":
            return f"{item.status} in the {which} report"
    if not _median(old) or not _median(new):
        return "no median in both reports"
    differing = [words for name, words in _CONDITIONS.items() if getattr(old, name) != getattr(new, name)]
    if elsewhere and not (old.device and new.device):
        differing.insert(0, _CONDITIONS["device"])
    return f"the two ran {differing[0]}" if differing else ""


def _median(item: Measurement | None) -> float | None:
    return item.latency_ms.p50 if item and item.status == "valid" and item.latency_ms else None


def _speedup(item: Measurement | None) -> Interval | None:
    return item.speedup.ratio if item and item.status == "valid" and item.speedup else None
