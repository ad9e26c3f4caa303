"""Starts a watched job, or follows the folder of one, and gives notices while it runs."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalyze.capture import process_tree
from dynalyze.capture.wire import BOOT_FOLDER
from dynalyze.launch.interrupts import Interrupts, last_signal
from dynalyze.privacy import cleaned
from dynalyze.text.amounts import count_of, size
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import one_line
from dynalyze.watch.child.events import BYTES_VARIABLE, FOLDER_VARIABLE, JOB_FILE
from dynalyze.watch.follow import Follower, trace_logs
from dynalyze.watch.job import JobState
from dynalyze.watch.notices import Notices, line_of
from dynalyze.watch.records import JobRank, Notice

_LOOK_SECONDS = 0.25
_MEMORY_SECONDS = 5.0
# Shares of memory: compile workers hold at least this much while no more than that is left.
_WORKERS_HOLD, _LEFT = 0.1, 0.08
_END_SECONDS = 15.0
# A TORCH_TRACE log without a new line for so long, when we begin, belongs to a job that has ended.
_SILENT_SECONDS = 600.0
_OWN_SIGNALS = tuple(getattr(signal, name) for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
_WORKER = "torch/_inductor/compile_worker"


class Watcher:
    """Reads the folder of a job: each notice and its line go to `tell`, the processes at each look to `shown_by`.

    `failed` is the notice for which a rule of `fail_fast` ends the job.
    """

    def __init__(
        self, folder: Path, tell: Callable[[Notice, str], None], fail_fast: Sequence[str] = (), *,
        shown_by: Sequence[Callable[[list[JobRank]], None]] = (),
        no_source: bool = False, redact: bool = False, show_values: bool = False,
    ) -> None:  # fmt: skip
        self.job = JobState()
        self.failed: Notice | None = None
        self._follower = Follower(folder)
        self._notices = Notices(self.job)
        self._tell, self._shown_by = tell, shown_by
        self._fail_fast = fail_fast
        self._cleaned = functools.partial(cleaned, no_source=no_source, show_values=show_values, redacted=redact)
        self._next_memory = 0.0
        self._folder = folder
        logs = [path.stat().st_mtime for path in trace_logs(folder)]
        self._is_old = bool(logs) and time.time() - max(logs) > _SILENT_SECONDS
        self._low_memory = False

    def look(self, *, over: bool = False, root: int | None = None) -> None:
        """Take what is new. `over`: no more events will come. `root` is the job's first process."""
        now = time.monotonic()
        self.job.renew(self._follower.states(), now)
        for read in self._follower.events():
            self.job.feed(read, now)
        notices = self._notices.news(now, time.time(), over=over)
        if root is not None and now >= self._next_memory:
            self._next_memory = now + _MEMORY_SECONDS
            if (notice := self._memory(root)) is not None:
                notices.append(notice)
        for notice in notices:
            shown = self._cleaned(notice)
            self._tell(shown, one_line(line_of(shown, len(self.job.live()))))
            concerned = {notice.kind, "diverged" if notice.alone and len(notice.ranks) == 1 else ""}
            if self.failed is None and concerned & {*self._fail_fast}:
                self.failed = notice
        for show in self._shown_by:
            show(self.rows())

    def rows(self) -> list[JobRank]:
        """The processes of the job."""
        return self.job.rows(list(self.job.processes), time.monotonic())

    def goes_on(self) -> bool:
        """Whether a process of the job still runs, as far as this machine and the logs can tell."""
        if trace_logs(self._folder):
            return not self._is_old
        return any(each.lives(time.monotonic()) for each in self.job.live())

    def _memory(self, root: int) -> Notice | None:
        """A notice when compile workers leave little memory; the next one only after there was more again."""
        left, whole = process_tree.available_bytes(), process_tree.memory_bytes()
        if left is None or whole is None or left > _LEFT * whole:
            self._low_memory = False
            return None
        seen = process_tree.processes()
        workers = [pid for pid in process_tree.below(root, seen) if _WORKER in process_tree.command_of(pid)]
        held = process_tree.memory_of(workers, seen, whole)
        if self._low_memory or held < _WORKERS_HOLD * whole:
            return None
        self._low_memory = True
        what = (
            f"{count_of(len(workers), 'compile worker')} hold {size(held)}, and {size(left)} of memory are left; "
            "TORCHINDUCTOR_COMPILE_THREADS=1 starts fewer"
        )
        notice = Notice("memory", "", round(time.time() - (self.job.first or time.time()), 3), note=what)
        self._notices.add(notice)
        return notice


@dataclass(frozen=True)
class JobEnd:
    """How a watched job ended: subprocess's exit status, and seconds."""

    status: int
    seconds: float


def start_folder(folder: Path, command: Sequence[str]) -> None:
    """Make the folder of a new job. Raises UsageError where it is in use or cannot be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name another one with --folder, or dynalyze watch {folder}")
        (folder / JOB_FILE).write_text(json.dumps({"command": list(command)}), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error


def watch_command(command: Sequence[str], folder: Path, most_bytes: int, watcher: Watcher) -> JobEnd:
    """Run a command to its end with each of its processes watched.

    It inherits standard input and writes to our standard error itself, so that it lives on if this process is killed.
    Ctrl-C on a terminal reaches it directly; other signals are passed on. Raises UsageError if it cannot be started.
    """
    environment = {
        **os.environ, FOLDER_VARIABLE: str(folder.resolve()), BYTES_VARIABLE: str(most_bytes),
        "PYTHONPATH": os.pathsep.join(filter(None, [BOOT_FOLDER, os.environ.get("PYTHONPATH")])),
    }  # fmt: skip
    began, obeyed, ending = time.monotonic(), 0, 0.0
    with Interrupts(killing=True) as interrupts:
        try:
            # The descriptors that we were given go on to it; Python's own are never inherited.
            job = subprocess.Popen(command, env=environment, stdout=sys.stderr.fileno(), close_fds=False)
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be started: {error.strerror}") from error
        for number in _OWN_SIGNALS:  # A scheduler warns with them; their default would end us alone.
            signal.signal(number, lambda number, frame: job.send_signal(number))
        while job.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(_LOOK_SECONDS)
            watcher.look(root=job.pid)
            if interrupts.count > obeyed:
                obeyed = interrupts.count
                number = last_signal() or signal.SIGINT
                if number != signal.SIGINT or not _in_foreground():
                    job.send_signal(number)
            if watcher.failed is not None and not ending:
                ending = time.monotonic() + _END_SECONDS
                job.terminate()
            elif ending and time.monotonic() > ending:
                _kill_all(job.pid)
        watcher.look(over=True)
    return JobEnd(job.returncode, time.monotonic() - began)


def watch_folder(watcher: Watcher) -> None:
    """Follow the folder of a job that somebody else started, until the job ends or we are interrupted."""
    with Interrupts() as interrupts:
        while not interrupts.count:
            watcher.look()
            if watcher.failed is not None or (watcher.job.processes and not watcher.goes_on()):
                break
            time.sleep(_LOOK_SECONDS)
        watcher.look(over=True)


def job_command(arguments: Sequence[str]) -> list[str]:
    """The command as given; with this Python in front of a script or `-m package`."""
    first = arguments[0]
    return [sys.executable, *arguments] if first == "-m" or first.endswith(".py") else list(arguments)


def job_name(command: Sequence[str]) -> str:
    """The name of the script or module in a command, else of its program."""
    for before, word in zip(["", *command], command, strict=False):
        if word.endswith(".py") or before == "-m":
            return Path(word).stem if word.endswith(".py") else word
    return Path(command[0]).name


def _in_foreground() -> bool:
    """Whether Ctrl-C on the terminal reaches the job directly."""
    with contextlib.suppress(OSError), Path("/dev/tty").open("rb", buffering=0) as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _kill_all(root: int) -> None:
    for pid in process_tree.below(root, process_tree.processes()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def attaching_script(records: Path, done: Path) -> str:
    """Python source that makes the process executing it watched, and then makes the file `done`."""
    start = Path(BOOT_FOLDER).with_name("start.py")
    return (
        "import importlib.util, os, pathlib\n"
        f"os.environ[{FOLDER_VARIABLE!r}] = {str(records)!r}\n"
        f"spec = importlib.util.spec_from_file_location('_dynalyze_start', {str(start)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.load_package()\n"
        "from dynalyze.watch.child.start import begin\n"
        "begin()\n"
        f"pathlib.Path({str(done)!r}).touch()\n"
    )
