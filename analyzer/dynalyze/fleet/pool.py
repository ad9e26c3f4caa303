"""Runs the items of a sweep on this machine: workers, one fork server for all of them, and second attempts."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

import msgspec

from dynalyze.files.temporary import TemporaryFolder
from dynalyze.fleet import worker
from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished, RunSettings, lost_item, start_server
from dynalyze.fleet.worker import Briefing, Result, Task
from dynalyze.launch.forkserver import ForkServer

_LOOK_SECONDS = 0.2
_LEAVE_SECONDS = 10.0
_WORKER_FILE = Path(worker.__file__).resolve()

Done = Callable[[Item, Finished], None]


class Pool(Protocol):
    """Where items run. A context manager: leaving it ends everything that it started."""

    workers: int
    notes: list[str]

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        """Run every item; `done` is called in this thread as each ends, in the order in which they end.

        Items are taken as there is room for them. `keep_on` is called about five times a second: False means to start
        nothing more, to end what runs, and to return.
        """

    def __enter__(self) -> Pool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Worker:
    """One worker process; `task` is what it is at."""

    def __init__(self, briefing: Briefing) -> None:
        self.task: Task | None = None
        self.dead = False
        self._unread = b""
        # A session of its own: Ctrl-C reaches us alone.
        self.process = subprocess.Popen(
            [sys.executable, str(_WORKER_FILE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._tasks, self.answers = self.process.stdin, self.process.stdout
        self._send(briefing)

    def give(self, task: Task) -> None:
        self.task = task
        self._send(task)

    def result(self) -> Result | None:
        """What it has answered; without a row where it died instead, None until the whole line is there."""
        piece = os.read(self.answers.fileno(), 1 << 20)
        if not piece:
            self.dead = True
            return Result(None)
        self._unread += piece
        if not self._unread.endswith(b"\n"):
            return None
        line, self._unread = self._unread, b""
        return msgspec.json.decode(line, type=Result)

    def end(self) -> None:
        """It was told to leave by SIGTERM, and may take the time that its supervisors need."""
        try:
            self.process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self._tasks, self.answers):
            try:
                pipe.close()
            except BrokenPipeError:
                continue

    def _send(self, message: Briefing | Task) -> None:
        try:
            self._tasks.write(msgspec.json.encode(message) + b"\n")
            self._tasks.flush()
        except BrokenPipeError:  # It died; the end of its answers tells.
            return


class LocalPool:
    """`workers` processes that run items, below one fork server. Files of the items go to `folder`.

    An item that was at work when the fork server or its worker died is run once more, alone: only one that does it
    again is a crash.
    """

    def __init__(self, workers: int, settings: RunSettings, folder: Path) -> None:
        self.workers = workers
        self.notes: list[str] = []
        self._settings = settings
        self._scratch = TemporaryFolder("sweep")
        self._briefing = Briefing(settings, str(folder), str(self._scratch.path))
        self._staff: list[_Worker] = []
        self._suspects: list[Item] = []
        self._server: ForkServer | None = None

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._staff:
            each.process.terminate()
        for each in self._staff:
            each.end()
        self._staff.clear()
        if self._server is not None:
            self._server.close()
        self._scratch.remove()

    def run(self, items: Iterable[Item], done: Done, keep_on: Callable[[], bool]) -> None:
        """As `Pool.run` says."""
        waiting = iter(items)
        with selectors.DefaultSelector() as selector:
            while keep_on():
                self._assign(waiting, selector)
                if not self._busy():
                    return
                for key, _ in selector.select(_LOOK_SECONDS):
                    self._handle(key.data, done, selector)

    def _busy(self) -> list[_Worker]:
        return [each for each in self._staff if each.task is not None]

    def _assign(self, waiting: Iterator[Item], selector: selectors.BaseSelector) -> None:
        """Give every free worker an item. While there are suspects, one of them runs and nothing beside it."""
        if self._suspects:
            if not self._busy():
                self._give(self._suspects.pop(0), 2, selector)
            return
        while len(self._busy()) < self.workers:
            item = next(waiting, None)
            if item is None:
                return
            self._give(item, 1, selector)

    def _give(self, item: Item, attempt: int, selector: selectors.BaseSelector) -> None:
        address = self._address(item)
        free = next((each for each in self._staff if each.task is None), None)
        if free is None:
            free = _Worker(self._briefing)
            self._staff.append(free)
            selector.register(free.answers, selectors.EVENT_READ, free)
        free.give(Task(item, address, attempt))

    def _address(self, item: Item) -> str | None:
        if not self._settings.forks(item):
            return None
        if self._server is not None and not self._server.alive:
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = start_server(self._settings)
        return self._server.address

    def _handle(self, worker: _Worker, done: Done, selector: selectors.BaseSelector) -> None:
        result = worker.result()
        if result is None:
            return
        task, worker.task = worker.task, None
        if worker.dead:
            selector.unregister(worker.answers)
            self._staff.remove(worker)
            worker.end()
        if task is None:
            return
        if result.row is not None:
            done(task.item, Finished(result.row, output=result.output))
        elif task.attempt == 1:
            self._suspects.append(task.item)
        else:
            done(task.item, lost_item(task.item, "it ended the process that runs the items, twice", task.attempt))
