"""The report of a watched job, made from its folder while it runs or afterwards."""

from __future__ import annotations

import heapq
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dynalyze.capture.events import TorchLoaded
from dynalyze.events.log import ProcessLog
from dynalyze.facts.build import assemble
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.files.paths import working_folder
from dynalyze.report import Outcome, Report, Target, printable
from dynalyze.text.amounts import count_of
from dynalyze.text.errors import UsageError
from dynalyze.watch.child.events import JOB_FILE, EventsLeftOut
from dynalyze.watch.follow import JobLog, Read, is_job, read_job
from dynalyze.watch.job import JobState
from dynalyze.watch.notices import Notices
from dynalyze.watch.records import Job
from dynalyze.watch.run import JobEnd, job_name

_LOOK_SECONDS, _PATIENCE_SECONDS = 0.5, 60.0
_LACKING = "Built from the records of a watched job: it has no graphs, kernels or sources."


def report_in(folder: Path, command: Sequence[str]) -> Report | None:
    """The report of the watched job in a folder; None where there is none."""
    return job_report(folder, command) if is_job(folder) else None


def job_report(folder: Path, command: Sequence[str], ended: JobEnd | None = None) -> Report:
    """The facts of a job, and what was told of it; findings are left to the rules. Raises UsageError for a folder in
    which nothing was written.
    """
    log = read_job(folder)
    if ended is None and not log.names and not log.states:
        raise UsageError(f"{folder}: no process of the job has compiled anything or finished a step yet")
    torch = next((event for _, event in log.run.all() if isinstance(event, TorchLoaded)), None)
    torch_folder = torch.folder if torch is not None else ""
    job = _command_of(folder)
    report = assemble(
        log.run, Target("script", printable(job_name(job) if job else folder.name), [printable(each) for each in job]),
        [printable(each) for each in command], Places(torch_folder), Sources(log.run), registry(torch_folder),
    )  # fmt: skip
    report.folder = printable(working_folder())
    part = job_part(log)
    setattr(report, "job", part)  # noqa: B010  a field of this feature: the type checker does not know it
    report.outcome = _outcome(part, ended, compiled=bool(report.compilations), job=shlex.join(job), folder=folder)
    report.capture.notes.append(_LACKING)
    if counted := sum(sum(event.counts.values()) for _, event in _last_counts(log)):
        report.capture.notes.append(f"{counted:,} graph breaks and errors that repeat earlier ones were only counted.")
    if log.omitted:
        report.capture.notes.append(f"{log.omitted:,} events did not fit into this report.")
    return report


def job_part(log: JobLog) -> Job:
    """The job's part of the report, from all that its processes wrote."""
    job = JobState(_PATIENCE_SECONDS)
    notices = Notices(job)
    looked = 0.0
    for at, read in heapq.merge(*map(_in_time, log.names, log.run.processes), key=lambda each: each[0]):
        job.feed(read, at)
        if at > looked + _LOOK_SECONDS:
            looked = at
            notices.news(at, at)
    now = time.time()
    job.renew(log.states, now)
    for name, state in log.states.items():
        job.processes[name].moved = state.at
    notices.news(now, job.last, over=True)
    lost = sum(state.lost for state in log.states.values())
    return Job(
        round(max(0.0, job.last - job.first), 3), job.rows(log.names, now), list(notices.latest),
        job.timeline(log.names), notices.untold, lost,
    )  # fmt: skip


def _last_counts(log: JobLog) -> list[tuple[str, EventsLeftOut]]:
    """The last count of events left out, by process."""
    found = {name: event for name, one in zip(log.names, log.run.processes, strict=True) for event in one.events
             if isinstance(event, EventsLeftOut)}  # fmt: skip
    return list(found.items())


def _in_time(name: str, process: ProcessLog) -> Iterator[tuple[float, Read]]:
    """The events of a process in its order, with times that never go back, as clocks do."""
    latest = 0.0
    for event in (process.started, *process.events):
        latest = max(latest, event.at)
        yield latest, Read(name, event)


def _outcome(part: Job, ended: JobEnd | None, *, compiled: bool, job: str, folder: Path) -> Outcome:
    steps = max((row.steps for row in part.ranks), default=0)
    so_far = f"{count_of(len(part.ranks), 'process', 'processes')}, step {steps:,}"
    if ended is None:
        return Outcome("complete", f"A snapshot of a watched job: {so_far}.", seconds=part.seconds)
    seconds = round(ended.seconds, 3)
    if ended.status:
        return Outcome("failed", f"{job} ended with exit status {ended.status} ({so_far}).", ended.status, seconds)
    if not part.ranks or (not compiled and any(row.compiles for row in part.ranks)):
        return Outcome(
            "incomplete",
            f"Nothing was recorded: no process of the job could write to {folder}, or none "
            "that imports torch was reached (python -I and -S keep us out).",
            0,
            seconds,
        )
    if not compiled:
        return Outcome("nothing_compiled", "No process of the job compiled anything.", 0, seconds)
    return Outcome("complete", "", 0, seconds)


def _command_of(folder: Path) -> list[str]:
    """The command of a job that we started; empty for others."""
    try:
        return msgspec.json.decode((folder / JOB_FILE).read_bytes(), type=dict[str, list[str]])["command"]
    except (OSError, msgspec.DecodeError, KeyError):
        return []
