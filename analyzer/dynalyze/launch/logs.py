"""From TORCH_TRACE logs, of one process or of many ranks, to a report. Opens the logs and nothing that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from dynalyze.capture.events import CacheLooked, GraphSeen, TorchLoaded
from dynalyze.events.log import ProcessLog, RunLog
from dynalyze.events.torch_trace import MOST_EVENTS, TraceLog, is_trace, place_of, read_text, read_trace
from dynalyze.facts.build import assemble
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import LogSources
from dynalyze.facts.stacks import Places
from dynalyze.files.paths import working_folder
from dynalyze.files.read_write import is_open_pipe, open_input, read_input
from dynalyze.report import Outcome, Report, Target, printable
from dynalyze.text.errors import UsageError

# torch's own name for such a file; where a folder has any, its other files are of no concern.
_TORCHS_NAME = "dedicated_log_torch_trace_"
_SNIFFED = 1 << 16
# Texts of graphs that are read for their operations and kernels, all logs together: a few seconds of work.
MOST_GRAPH_TEXT = 12 << 20
_DIGITS = re.compile(r"(\d+)")

_LACKING = (
    "Built from a TORCH_TRACE log: no columns, guard values or traced files. Only source lines that the log quotes are "
    "shown."
)
_NO_HASHES = "The log records no hashes of source files, so no file was opened below --source-root."


def log_files(path: Path) -> list[Path]:
    """The logs in a folder and the folders right below it, in order of rank; or `path`, where that is a log. Raises
    UsageError for a folder without a log.
    """
    if not path.is_dir():
        return [path]
    found = [file for pattern in ("*.log", "*/*.log") for file in path.glob(pattern) if file.is_file()]
    named = [file for file in found if file.name.startswith(_TORCHS_NAME)]
    if not found:
        raise UsageError(f"{path}: a directory without a log, no *.log in it or one directory below it")
    return sorted(named or found, key=lambda file: [_natural(part) for part in file.relative_to(path).parts])


def holds_records(path: Path) -> bool:
    """Whether a file is a log of torch, by its name or its beginning. Raises OSError where it cannot be read, and
    UsageError for a log that comes through a pipe.
    """
    if path.name.startswith(_TORCHS_NAME):
        return True
    if is_open_pipe(path):
        if is_trace(read_input(path)[:_SNIFFED]):
            raise UsageError(f"{path}: a log of torch is read more than once; write it to a file")
        return False
    with open_input(path) as file:
        return is_trace(file.read(_SNIFFED))


def report_from_logs(
    path: Path,
    roots: Sequence[Path] = (),
    command: Sequence[str] = (),
    keep: Callable[[RunLog], list[str]] | None = None,
) -> Report:
    """The facts of a log or a folder of logs, without findings.

    `keep` is called with the events while their texts can be read, and returns notes. Raises UsageError where nothing
    can be read.
    """
    files = log_files(path)
    logs: list[TraceLog] = []
    for file in files:
        try:
            logs.append(read_trace(file, len(files)))
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from error
    run = _run(logs)
    kept = keep(run) if keep is not None else []
    unread = _limit_texts(run, MOST_GRAPH_TEXT // max(1, len(run.processes)))
    torch_folders = {log.torch_folder for log in logs if log.torch_folder}
    quoted = {place: code for log in reversed(logs) for place, code in log.quoted.items()}
    report = assemble(
        run,
        Target("trace", printable(str(path))),
        [printable(word) for word in command],
        # Where torch was installed in all of them; where they differ, its files are known by site-packages.
        Places(torch_folders.pop() if len(torch_folders) == 1 else ""),
        LogSources(quoted),
        registry(),
        readable=False,
    )
    versions = dict.fromkeys(event.version for _, event in run.all() if isinstance(event, TorchLoaded))
    report.environment = {"torch": ", ".join(versions) or None}
    report.folder = printable(working_folder())
    report.outcome = _outcome(run, logs, compiled=bool(report.compilations))
    report.capture.notes += [*kept, *_notes(logs, unread, rooted=bool(roots))]
    return report


def _run(logs: Sequence[TraceLog]) -> RunLog:
    """All processes of all logs, by rank where all have one."""
    processes = [process for log in logs for process in log.processes]
    processes.sort(key=lambda process: -1 if process.started.rank is None else process.started.rank)
    for number, process in enumerate(processes):
        process.process = number
    for number, log in enumerate(logs):
        for event in (event for process in log.processes for event in process.events):
            # A reference to a text names its log before the place in it.
            if isinstance(event, GraphSeen):
                event.text = f"{number}/{event.text}"
            elif isinstance(event, CacheLooked):
                event.settings = [f"{number}/{name}" for name in event.settings if name]
    return RunLog(processes, sum(log.unreadable for log in logs), partial(_text, logs))


def _text(logs: Sequence[TraceLog], reference: str) -> str:
    """The text of a graph, by its place in a log, or of settings, by number."""
    number, found, place = reference.partition("/")
    if not found:
        return ""
    log = logs[int(number)]
    if place.isdigit():
        return log.settings[int(place)]
    try:
        return read_text(log.path, place)
    except OSError:
        return ""


def _limit_texts(run: RunLog, room: int) -> int:
    """Keep the first texts of each process, up to `room` bytes; returns how many graphs are left without."""
    unread = 0
    for process in run.processes:
        left = room
        for event in _graphs([process]):
            start, end = place_of(event.text.partition("/")[2])
            left -= end - start
            if left < 0:
                event.text = ""
                unread += event.stage == "dynamo"
    return unread


def _graphs(processes: Iterable[ProcessLog]) -> Iterator[GraphSeen]:
    return (event for process in processes for event in process.events if isinstance(event, GraphSeen))


def _outcome(run: RunLog, logs: Sequence[TraceLog], *, compiled: bool) -> Outcome:
    source = "a TORCH_TRACE log" if len(logs) == 1 else f"{len(logs)} TORCH_TRACE logs"
    if not compiled:
        why = "The program may have compiled in another process, or its log was cut short."
        if not any(log.records for log in logs):
            why = "It holds not one record of torch."
        return Outcome("nothing_compiled", f"There is no compilation in {source}. {why}")
    ranks = sorted({log.started.rank for log in run.processes if log.started.rank is not None})
    of = f" of {len(run.processes)} processes" if len(run.processes) > 1 else ""
    ranked = f" ({len(ranks)} ranks, {ranks[0]} to {ranks[-1]})" if len(ranks) > 1 else ""
    return Outcome("complete", f"Read from {source}{of}{ranked}. How the program ended is not in it.")


def _notes(logs: Sequence[TraceLog], unread: int, *, rooted: bool) -> Iterator[str]:
    yield _LACKING
    if rooted:
        yield _NO_HASHES
    if unmeasured := sum(log.unmeasured for log in logs):
        yield (
            f"{unmeasured:,} compilations have no metrics in the log: they have no times, and their status is read "
            "from the records of their graphs and guards."
        )
    if unread:
        yield f"{unread:,} graphs are shown without code and kernels: those are read only for the first ones."
    if omitted := sum(log.omitted for log in logs):
        yield f"{omitted:,} events omitted: dynalyze reads the first {MOST_EVENTS:,}, as many of each log."


def _natural(part: str) -> list[tuple[int, str]]:
    """A name as a key that sorts rank_10 after rank_9."""
    return [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in _DIGITS.split(part)]
