"""Reads the folder of a watched job, live or afterwards: events as they come, and the states of its ranks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dynalyze.capture.events import Event, ProcessStarted
from dynalyze.capture.wire import EVENTS_FOLDER
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.events.reading import decode_line
from dynalyze.events.torch_trace import MOST_EVENTS, LiveTrace
from dynalyze.watch.child.events import JOB_FILE, STATES_FOLDER, RankState

_BLOCK = 1 << 20
_RANK = re.compile(r"rank_(\d{1,9})_")
_decoder = msgspec.json.Decoder(RankState)


class Read(NamedTuple):
    """An event, and the name of the process that wrote it."""

    process: str
    event: Event


def is_job(folder: Path) -> bool:
    """Whether a folder is that of a watched job."""
    return (folder / JOB_FILE).is_file() or (folder / STATES_FOLDER).is_dir()


def trace_logs(folder: Path) -> list[Path]:
    """The logs in a folder that TORCH_TRACE names, also of a job that still runs."""
    return sorted(folder.glob("dedicated_log_torch_trace_*.log"))


class Follower:
    """Gives what is new in the folder of a job at each call. `log` counts unreadable lines."""

    def __init__(self, folder: Path) -> None:
        self.log = RunLog()
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._traces: dict[Path, LiveTrace] = {}

    def states(self) -> dict[str, RankState]:
        """The last state of each process. Ask before `events`, which then hold all that the states count."""
        found = {}
        for path in sorted((self._folder / STATES_FOLDER).glob("*.json")):
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                found[path.stem] = _decoder.decode(path.read_bytes())
        return found

    def events(self) -> Iterator[Read]:
        """Every event that was appended since the last call, in order within a process."""
        files = sorted((self._folder / EVENTS_FOLDER).glob("*.jsonl"), key=_place)
        for gone in self._offsets.keys() - set(files):
            del self._offsets[gone]
        for path in files:
            yield from self._new_in(path)
        for path in trace_logs(self._folder):
            yield from self._traced_in(path)

    def _traced_in(self, path: Path) -> Iterator[Read]:
        """New events out of a TORCH_TRACE log, which knows no steps."""
        trace = self._traces.setdefault(path, LiveTrace(path))
        named = _RANK.search(path.name)
        with contextlib.suppress(OSError):
            for process, events in trace.new():
                rank = process.rank if process.rank is not None or named is None else int(named[1])
                name = f"{path.stem} {process.pid}"
                yield Read(name, ProcessStarted(pid=process.pid, rank=rank))
                yield from (Read(name, event) for event in events)

    def _new_in(self, path: Path) -> Iterator[Read]:
        process = path.name.partition(".")[0]
        try:
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                while block := file.read(_BLOCK):
                    whole = block.rpartition(b"\n")[0]
                    if not whole and len(block) < _BLOCK:
                        return
                    if not whole:  # A line longer than any of ours: somebody else's.
                        self.log.unreadable += 1
                        whole = block
                    self._offsets[path] = self._offsets.get(path, 0) + len(whole) + 1
                    file.seek(self._offsets[path])
                    for line in whole.split(b"\n"):
                        if line and (event := decode_line(line, self.log)) is not None:
                            yield Read(process, event)
        except OSError:  # It was rotated away.
            return


def _place(path: Path) -> tuple[str, int]:
    process, _, part = path.name.removesuffix(".jsonl").partition(".")
    return process, int(part) if part.isdigit() else 0


class JobLog(NamedTuple):
    """All that a job wrote, by process; `names` are the processes' in order. `omitted` counts events for which a
    report has no room.
    """

    run: RunLog
    names: list[str]
    states: dict[str, RankState]
    omitted: int


def read_job(folder: Path) -> JobLog:
    """The folder of a job, also of one that still runs."""
    follower, logs, omitted = Follower(folder), dict[str, ProcessLog](), 0
    states = follower.states()
    for process, event in follower.events():
        if process not in logs:
            logs[process] = ProcessLog(0, event if isinstance(event, ProcessStarted) else ProcessStarted(pid=0))
        log = logs[process]
        if isinstance(event, ProcessStarted):
            continue
        if len(log.events) >= MOST_EVENTS // max(1, len(logs)):
            omitted += 1
        else:
            log.events.append(event)
    for name, state in states.items():  # One that makes steps and compiles nothing has no events.
        log = logs.setdefault(name, ProcessLog(0, ProcessStarted(pid=state.pid, at=state.began)))
        if log.started.rank is None:
            log.started.rank = state.rank
    names = sorted(logs, key=lambda name: (logs[name].started.rank or 0, logs[name].started.at))
    run = RunLog([logs[name] for name in names], follower.log.unreadable)
    for number, each in enumerate(run.processes):
        each.process = number
    return JobLog(run, names, states, omitted)
