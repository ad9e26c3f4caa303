"""Runs the items of a sweep on this machine: workers, one fork server for all of them, and second attempts."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Protocol

import msgspec

from dynalyze.files.temporary import TemporaryFolder
from dynalyze.sweep import worker
from dynalyze.sweep.records import Item
from dynalyze.sweep.rows import bare_row
from dynalyze.sweep.work import Finished, Runner, RunSettings
from dynalyze.sweep.worker import Task

_LOOK_SECONDS = 0.2
_LEAVE_SECONDS = 10.0
_WORKER_FILE = Path(worker.__file__).resolve()

Done = Callable[[Item, Finished], None]


class Pool(Protocol):
    """Where items run. A context manager: leaving it ends everything that it started."""

    workers: int
    notes: list[str]

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        """Run every item, taken as there is room; `done` is called in this thread as each ends.

        `keep_on` is called about five times a second: once it returns False, what runs is ended.
        """

    def __enter__(self) -> Pool: ...

    def __exit__(self, *error: object) -> None: ...


class _LocalWorker:
    def __init__(self) -> None:
        self.task: Task | None = None
        self.connection, theirs = Pipe()
        with theirs:
            # A session of its own: Ctrl-C reaches us alone. What runs there gets our standard error alone.
            self._process = subprocess.Popen(
                [sys.executable, str(_WORKER_FILE), str(theirs.fileno())], pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=2, start_new_session=True,
            )  # fmt: skip

    def give(self, task: Task) -> None:
        self.task = task
        with contextlib.suppress(OSError):  # It died: the end of its connection shows that.
            self.connection.send_bytes(msgspec.json.encode(task))

    def end(self) -> None:
        """Wait for its end, with time for its supervisors; its connection is closed already."""
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class LocalPool:
    """`workers` processes that run items, below one fork server; the items' files go to `folder`.

    An item that ran when the fork server or its worker died is run once more, alone: the second time it is a crash.
    """

    def __init__(self, workers: int, settings: RunSettings, folder: Path) -> None:
        self.workers = workers
        self.notes: list[str] = []
        self._runner = Runner(settings)
        self._scratch = TemporaryFolder("sweep")
        self._settings, self._folder = settings, str(folder)
        self._staff: list[_LocalWorker] = []
        self._suspects: list[Item] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._staff:
            each.connection.close()
        for each in self._staff:
            each.end()
        self._staff.clear()
        self._runner.close()
        self._scratch.remove()

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        waiting = iter(items)
        with selectors.DefaultSelector() as selector:
            while keep_on():
                self._assign(waiting, selector)
                if not self._busy():
                    return
                for key, _ in selector.select(_LOOK_SECONDS):
                    self._handle(key.data, done, selector)

    def _busy(self) -> list[_LocalWorker]:
        return [each for each in self._staff if each.task is not None]

    def _assign(self, waiting: Iterator[Item], selector: selectors.BaseSelector) -> None:
        """Give every free worker an item. While there are suspects, one of them runs and nothing beside it."""
        if self._suspects and not self._busy():
            self._give(self._suspects.pop(0), 2, selector)
        elif not self._suspects:
            while len(self._busy()) < self.workers and (item := next(waiting, None)) is not None:
                self._give(item, 1, selector)

    def _give(self, item: Item, attempt: int, selector: selectors.BaseSelector) -> None:
        address = self._runner.address(item)
        free = next((each for each in self._staff if each.task is None), None)
        if free is None:
            free = _LocalWorker()
            self._staff.append(free)
            selector.register(free.connection, selectors.EVENT_READ, free)
        free.give(Task(item, self._settings, self._folder, str(self._scratch.path), address, attempt))

    def _handle(self, worker: _LocalWorker, done: Done, selector: selectors.BaseSelector) -> None:
        task, worker.task = worker.task, None
        try:
            finished: Finished | None = msgspec.json.decode(worker.connection.recv_bytes(), type=Finished | None)
        except (EOFError, OSError):
            finished = None
            selector.unregister(worker.connection)
            worker.connection.close()
            self._staff.remove(worker)
            worker.end()
        if task is None:
            return
        if finished is not None:
            done(task.item, finished)
        elif task.attempt == 1:
            self._suspects.append(task.item)
        else:
            row = bare_row(task.item, "crash", "it ended the process that runs the items, twice", task.attempt)
            done(task.item, Finished(row))
