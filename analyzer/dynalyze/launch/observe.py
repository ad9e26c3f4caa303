"""Runs a target in a child that listens, watches what it writes, and reads it back."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dynalyze.capture.events import (
    BreakSeen,
    CompileEnded,
    CompileStarted,
    Event,
    ObjectStarted,
    ProcessStarted,
    ProgramEnded,
)
from dynalyze.capture.settings import CompileOptions
from dynalyze.capture.wire import BYTECODE_FILE, EVENTS_FOLDER, REQUEST_FILE, TRACKING_VARIABLE
from dynalyze.events.log import RunLog
from dynalyze.events.reading import decode_line, read_run
from dynalyze.facts.build import Ended, build_report, misuse
from dynalyze.facts.kernels import lacking
from dynalyze.files.paths import working_folder
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.run import START, run
from dynalyze.launch.sandbox import Again, Isolation, Sandbox, Wanted, how_to_run_again
from dynalyze.launch.spec import TargetSpec
from dynalyze.launch.streams import Streams, progress_line
from dynalyze.report import Report, printable
from dynalyze.text.amounts import count_of
from dynalyze.text.errors import UsageError

_STOP_SIGNAL = getattr(signal, "SIGURG", None)
_GRACE_SECONDS = 10.0
_LONG_QUIET = 30.0
"""Seconds without a new compile after which a program seems to be in its training loop."""


@dataclass(frozen=True)
class Observation:
    """What to run and under which limits; times in seconds.

    - `hint` is shown where the program goes on and nothing new compiles.
    - `bundle`: its calls are written, for processes that make them again; without `written` they are only listed. Calls
      with more than `largest_copy` bytes of tensors are not written, but timed in the program for `seconds_in_turns`.
    - Without `in_place` the calls of a program that compiles nothing are recorded, and not compiled. With `overrides` a
      given `--backend` also holds for what the program compiles itself.
    - It runs with `switches` in its environment over the user's, with `changes`, other texts for files by path, with
      `settings`, Python statements about torch's settings, and in `folder`, by default ours.
    - `isolation` is that of this run, `sandbox` the wish for further ones; with `allow_effects` calls with outside
      effects may be repeated. `keep` and `put` are those of `Sandbox`.
    - What a `compared` run leaves set, and its functions, are recorded.
    """

    target: TargetSpec
    options: CompileOptions = field(default_factory=CompileOptions)
    timeout: float = 600.0
    stop_after: float | None = None
    hint: str = ""
    python: str | None = None
    quiet: bool = False
    command: tuple[str, ...] = ()
    provenance: bool = False
    bundle: bool = False
    largest_copy: int = 16 << 30
    seconds_in_turns: float = 0.0
    written: bool = True
    in_place: bool = True
    overrides: bool = False
    switches: Mapping[str, str] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    folder: str | None = None
    allow_effects: bool = False
    sandbox: Wanted = "auto"
    isolation: Isolation = "open"
    keep: Sequence[str] = ()
    put: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False

    def again(self, first: Report) -> Again:
        """How the target may be run after this first run. Raises UsageError where `--sandbox on` cannot be had."""
        if self.target.asked is not None:  # What a library reads and keeps to build a model is no program's doing.
            return Again()
        return how_to_run_again(first.capture.outside_effects, self.sandbox, allow_effects=self.allow_effects)


@dataclass(frozen=True)
class Observed:
    """A run that has ended, while its folder can still be read."""

    report: Report
    log: RunLog
    folder: Path


@contextmanager
def observed(
    observation: Observation, keep: Callable[[RunLog], list[str]] | None = None, streams: Streams | None = None
) -> Iterator[Observed]:
    """The facts of a run of the target, without findings; its files are there inside the block.

    `keep` is called with its events, and returns notes for the report; with it Dynamo's bytecode is recorded too.
    `streams` get its output. Raises UsageError where the target cannot be run.
    """
    target = observation.target
    streams = streams or Streams(Path(target.path or target.stem).name, quiet=observation.quiet)
    with TemporaryFolder() as folder:
        if keep is not None:
            (folder / BYTECODE_FILE).touch()
        log, ended = run_child(
            "explain", request_of(observation), folder, _environment(observation), python=observation.python,
            streams=streams, timeout=observation.timeout, stop_after=observation.stop_after, hint=observation.hint,
            working_folder=observation.folder,
            sandbox=Sandbox(observation.keep, observation.put) if observation.isolation == "sandbox" else None,
        )  # fmt: skip
        report = report_of(log, ended, observation)
        if observation.provenance:
            report.capture.notes += lacking(report.graphs, report.kernels)
        if keep is not None:
            report.capture.notes += keep(log)
        yield Observed(report, log, folder)


def _environment(observation: Observation) -> dict[str, str]:
    """Our environment, which the target and all that it starts inherit."""
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
    hint: str = "",
    working_folder: str | None = None,
    sandbox: Sandbox | None = None,
) -> tuple[RunLog, Ended]:
    """The events that a process of `capture/start.py` wrote into `folder`, and how it ended. Raises UsageError where
    the interpreter does not start, or for a mistake of the user's that only the child could see.
    """
    python = python or sys.executable
    (folder / REQUEST_FILE).write_text(json.dumps(request), encoding="utf-8")
    watch = RunWatch(folder, stop_after, *progress_line(streams), hint=hint)
    command = [python, str(START), what, str(folder)]
    if sandbox is not None:
        command = sandbox.command(command, folder, working_folder)
    ended = run(command, environment, timeout=timeout, streams=streams, watch=watch.poll, folder=working_folder)
    log = read_log(folder)
    if not log.processes and ended.reason == "ended":
        said = streams.last_lines()
        raise UsageError(f"{python} did not start: {said[-1].strip() if said else 'it wrote nothing'}")
    return log, ended


def read_log(folder: Path) -> RunLog:
    """The events of a run. Raises UsageError for a mistake of the user's that only the child could see."""
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
    """The observation as the child's request file has it."""
    return {
        **asdict(observation.target),
        "compile": asdict(observation.options),
        "changes": dict(observation.changes),
        "settings": observation.settings,
        "refuses": observation.isolation == "refuse",
        "compared": observation.compared,
        "allow_effects": observation.allow_effects,
        "bundle": observation.bundle,
        "largest_copy": observation.largest_copy,
        "seconds_in_turns": observation.seconds_in_turns,
        "in_place": observation.in_place,
        "overrides": observation.overrides,
        "cloudpickle": (folder_of("cloudpickle") if observation.written else None) if observation.bundle else "",
    }


def folder_of(package: str) -> str:
    """The folder of a package of ours; empty where we have none."""
    spec = importlib.util.find_spec(package)
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)


class RunWatch:
    """Shows progress from the events as they come, and stops the target after a pause of `stop_after` seconds."""

    def __init__(
        self, folder: Path, stop_after: float | None, progress: Callable[[str], None], every: float = 10.0, *,
        hint: str = "",
    ) -> None:  # fmt: skip
        self._events = folder / EVENTS_FOLDER
        self._stop_after = stop_after
        self._hint = hint if stop_after is None else ""
        self._progress = progress
        self._every = every  # seconds between two lines of progress
        self._offsets: dict[Path, int] = {}
        self._began = self._last_compile = self._last_progress = time.monotonic()
        self._log = RunLog()
        self._main_pid = 0
        self._stopped_at: float | None = None
        self._program_ended = False
        self._in_progress: set[tuple[Path, str]] = set()
        self.compiled = self.breaks = 0
        self._shown = (0, 0)

    def poll(self) -> bool:
        """Look for news; True when the target has to be killed, because it did not heed the stop."""
        if self._events.is_dir():
            for path in self._events.glob("*.jsonl"):
                for line in filter(None, self._new_lines(path)):
                    self._note(path, decode_line(line, self._log))
        now = time.monotonic()
        if now - self._last_progress > self._every and (self.compiled, self.breaks) != self._shown:
            self._shown = (self.compiled, self.breaks)
            self._last_progress = now
            compiled, breaks = count_of(self.compiled, "compilation"), count_of(self.breaks, "break event")
            self._progress(f"{now - self._began:.0f} s: {compiled}, {breaks} so far")
        if self._program_ended:
            return False
        waited = now - self._last_compile
        if self._hint and self.compiled and not self._in_progress and waited > _LONG_QUIET:
            self._progress(f"nothing new compiled for {waited:.0f} s: {self._hint}")
            self._hint = ""
        if self._stopped_at is not None:
            return now - self._stopped_at > _GRACE_SECONDS
        quiet = self._stop_after is not None and self.compiled and waited > self._stop_after
        if quiet and self._main_pid and not self._in_progress:
            self._stopped_at = now
            if _STOP_SIGNAL is not None:
                try:
                    os.kill(self._main_pid, _STOP_SIGNAL)
                except ProcessLookupError:
                    self._program_ended = True
        return False

    def _new_lines(self, path: Path) -> list[bytes]:
        offset = self._offsets.get(path, 0)
        if path.stat().st_size <= offset:
            return []
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
        whole = data.rpartition(b"\n")[0]
        self._offsets[path] = offset + len(whole) + (1 if whole else 0)
        return whole.splitlines()

    def _note(self, path: Path, event: Event | None) -> None:
        if isinstance(event, ProcessStarted) and event.main:
            self._main_pid = event.pid
        elif isinstance(event, CompileStarted):
            self.compiled += 1
            self._in_progress.add((path, event.id))
            self._last_compile = time.monotonic()
        elif isinstance(event, CompileEnded):
            self._in_progress.discard((path, event.id))
            self._last_compile = time.monotonic()
        elif isinstance(event, BreakSeen):
            self.breaks += 1
        elif isinstance(event, ProgramEnded | ObjectStarted):
            self._program_ended = True
