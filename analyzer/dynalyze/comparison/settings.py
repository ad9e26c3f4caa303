"""What around two runs was not the same: versions, options, the target. It may explain the rest, so it comes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from dynalyze.comparison.types import Difference
from dynalyze.report import Report

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
