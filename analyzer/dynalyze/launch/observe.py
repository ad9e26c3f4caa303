"""Runs a target in a child that listens, and reads back what it wrote."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynalyze.capture.settings import CompileOptions
from dynalyze.capture.wire import BYTECODE_FILE, REQUEST_FILE, TRACKING_VARIABLE
from dynalyze.events.log import RunLog
from dynalyze.events.reading import read_run
from dynalyze.facts.build import Ended, build_report, misuse
from dynalyze.facts.kernels import lacking
from dynalyze.files.paths import working_folder
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.question import START
from dynalyze.launch.run import run
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams, progress_line
from dynalyze.launch.watch import Watch
from dynalyze.report import Report, printable
from dynalyze.text.errors import UsageError


@dataclass(frozen=True)
class Observation:
    """What to run and under which limits; times in seconds.

    `bundle`: the calls of a program are written for processes that make them again; without `written` it is only told
    which they are. Without `in_place` nothing of a program that compiles nothing is compiled: its calls are recorded.
    `switches` are set in its environment, whatever the user's says.
    """

    target: TargetSpec
    options: CompileOptions = field(default_factory=CompileOptions)
    timeout: float = 600.0
    stop_after: float | None = None
    python: str | None = None
    quiet: bool = False
    command: tuple[str, ...] = ()
    provenance: bool = False
    bundle: bool = False
    written: bool = True
    in_place: bool = True
    switches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """A run that has ended, while its folder can still be read."""

    report: Report
    log: RunLog
    folder: Path


@contextmanager
def observed(observation: Observation, keep: Callable[[RunLog], list[str]] | None = None) -> Iterator[Observed]:
    """Run the target to its end, or to its limit: the facts without findings. What it wrote is there inside the block.

    `keep` is called with its events, and returns notes for the report. With it the bytecode that Dynamo makes is
    recorded too. Raises UsageError where what was asked for cannot be run; nothing is written then.
    """
    target = observation.target
    streams = Streams(Path(target.path or target.stem).name, quiet=observation.quiet)
    with TemporaryFolder() as folder:
        if keep is not None:
            (folder / BYTECODE_FILE).touch()
        log, ended = run_child(
            "explain", request_of(observation), folder, _environment(observation), python=observation.python,
            streams=streams, timeout=observation.timeout, stop_after=observation.stop_after,
        )  # fmt: skip
        report = report_of(log, ended, observation)
        if observation.provenance:
            report.capture.notes += lacking(report.graphs, report.kernels)
        if keep is not None:
            report.capture.notes += keep(log)
        yield Observed(report, log, folder)


def _environment(observation: Observation) -> dict[str, str]:
    """Ours, which the target and all that it starts inherit; what the user set in it stays."""
    tracking = {TRACKING_VARIABLE: "1"} if observation.provenance else {}
    return {**tracking, **os.environ, **observation.switches}


def run_child(
    what: str,
    request: Mapping[str, Any],
    folder: Path,
    environment: Mapping[str, str],
    *,
    python: str | None,
    streams: Streams,
    timeout: float,
    stop_after: float | None = None,
) -> tuple[RunLog, Ended]:
    """What a process of `capture/start.py` that writes events wrote into `folder`, and how it ended. Raises UsageError
    where the interpreter does not start, or the child tells of the user's mistake.
    """
    python = python or sys.executable
    (folder / REQUEST_FILE).write_text(json.dumps(request), encoding="utf-8")
    watch = Watch(folder, stop_after, *progress_line(streams))
    command = [python, str(START), what, str(folder)]
    ended = run(command, environment, timeout=timeout, streams=streams, watch=watch.poll)
    log = read_log(folder)
    if not log.processes and ended.reason == "ended":
        said = streams.last_lines()
        raise UsageError(f"{python} did not start: {said[-1].strip() if said else 'it wrote nothing'}")
    return log, ended


def read_log(folder: Path) -> RunLog:
    """The events of a run. Raises UsageError where the child tells of the user's mistake."""
    log = read_run(folder)
    if (mistake := misuse(log)) is not None:
        raise UsageError(mistake)
    return log


def report_of(log: RunLog, ended: Ended, observation: Observation) -> Report:
    """The facts of a run that has been read back, without findings."""
    report = build_report(
        log, ended, observation.target.described(), [printable(argument) for argument in observation.command]
    )
    report.folder = printable(working_folder())
    return report


def request_of(observation: Observation) -> dict[str, Any]:
    """What the child is asked for, as it is written to its request file."""
    target = asdict(observation.target)
    asked = target.pop("asked")
    return {
        **target,
        "transformers": asked,
        "compile": asdict(observation.options),
        "bundle": observation.bundle,
        "in_place": observation.in_place,
        "cloudpickle": (folder_of("cloudpickle") if observation.written else None) if observation.bundle else "",
    }


def folder_of(package: str) -> str:
    """The folder of a package of ours; empty where we have none."""
    spec = importlib.util.find_spec(package)
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)
