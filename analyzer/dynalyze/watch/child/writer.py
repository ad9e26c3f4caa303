"""Writes the events of a watched process from a thread of its own, into files that rotate.

The thread that trains only queues lines, so that a slow, full or missing disk never holds it up. What does not fit the
bounds is dropped and counted.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from dynalyze.capture import environment
from dynalyze.capture.events import (
    BreakSeen,
    CacheLooked,
    CompileEnded,
    CompilerEvent,
    CompileStarted,
    ErrorSeen,
    Event,
    GraphSeen,
    RecompileSeen,
    SpecializedSeen,
)
from dynalyze.capture.writer import EventWriter, as_line
from dynalyze.watch.child.events import STATES_FOLDER, EventsLeftOut, RankSeen, RankState, StepReached

_WAIT_SECONDS = 0.5
_AT_EXIT_SECONDS = 2.0
_MOST_WAITING = 2000
_BATCH = 50
# A log is written in parts of 1/256 of the job's bytes; the first and the last parts of a process are kept longest.
_PARTS, _LEAST_PART = 256, 64 << 10
# So many events of a kind are written whole, further ones shortened or only counted.
_WHOLE = 8
_MOST_KINDS = 10_000
_CALLERS = 4


class RankWriter(EventWriter):
    """The writer of a watched process's listener. `state` gives the process's state (asked by the writing thread),
    `number` its steps (asked by the compiling one).
    """

    most_kept = _MOST_WAITING

    def __init__(self, job: Path, most_bytes: int, state: Callable[[], RankState], number: Callable[[], int]) -> None:
        super().__init__(job)
        self._most_bytes = most_bytes
        self._state, self._number = state, number
        self._waiting: collections.deque[bytes] = collections.deque(maxlen=_MOST_WAITING)
        self._wake = threading.Event()
        self.thread: threading.Thread | None = None
        self._written = ""
        self._left_out: dict[str, int] = {}
        self._counted: dict[str, int] = {}
        self._kinds: dict[tuple[str, str, str], int] = {}
        self._reached = -1
        self._forget_process()
        atexit.register(self.finish)

    def write(self, event: Event) -> None:
        """Queue one event; called by the compiler."""
        event.at = time.time()
        if not self._is_of_use(event):
            return
        if isinstance(event, CompilerEvent) and (number := self._number()) != self._reached:
            self._reached = number
            self._hand_over(StepReached(at=event.at, number=number))
        self._hand_over(event)

    def write_text(self, text: str) -> str:
        """Drop graphs and sources."""
        return ""

    def begin(self) -> None:
        """Start the writing thread, once there is something to write: most processes of a job only help."""
        with self._beginning:
            if self.thread is not None:
                return
            self.thread = threading.Thread(target=self._run, name="dynalyze-watch", daemon=True)
            with contextlib.suppress(RuntimeError):  # The machine has no thread for us, or Python is ending.
                self.thread.start()

    def finish(self) -> None:
        """Write what is queued, at the end of the process, if the disk permits."""
        self._over = True
        if self.thread is not None and self.thread.ident is not None:
            self._wake.set()
            self.thread.join(_AT_EXIT_SECONDS)

    def _hand_over(self, event: Event) -> None:
        self._lost += len(self._waiting) == _MOST_WAITING  # The oldest one goes.
        self._waiting.append(as_line(event))
        self.begin()
        self._wake.set()

    def _is_of_use(self, event: Event) -> bool:
        """Whether to write an event; one like many before is shortened or only counted."""
        if isinstance(event, CacheLooked) or (isinstance(event, GraphSeen) and event.stage != "dynamo"):
            return False
        seen = self._count(event)
        if seen <= _WHOLE:
            return True
        if isinstance(event, BreakSeen | ErrorSeen | GraphSeen | SpecializedSeen):
            self._left_out[event.tag] = self._left_out.get(event.tag, 0) + 1
            return False
        if isinstance(event, CompileStarted):
            event.stack, event.names = event.stack[-_CALLERS:], {}
        elif isinstance(event, RecompileSeen):
            event.versions = event.versions[:_WHOLE]
        elif isinstance(event, CompileEnded):
            event.own, event.memory = {}, None
        return True

    def _count(self, event: Event) -> int:
        """How many events of this kind about this function came so far; of breaks and errors, with this text."""
        if not isinstance(event, CompilerEvent):
            return 1
        key = (event.tag, event.id.rpartition("/")[0], event.text if isinstance(event, BreakSeen | ErrorSeen) else "")
        if key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            return _WHOLE + 1
        self._kinds[key] = self._kinds.get(key, 0) + 1
        return self._kinds[key]

    def _run(self) -> None:
        """The writing thread: queued events and, twice a second, the state of the process."""
        self._facts()
        while not self._over:
            self._wake.wait(_WAIT_SECONDS)
            self._wake.clear()
            self.save()
        self.save()

    def save(self) -> None:
        """Events first: who reads a state then finds all events before it."""
        if self._left_out != self._counted:
            self._counted = dict(self._left_out)
            self._waiting.append(as_line(EventsLeftOut(at=time.time(), counts=self._counted)))
        state = self._state()
        self._flush()
        self._renew(state)

    def _facts(self) -> None:
        """Queue torch's versions; here, because reading them takes longer than a step should wait."""
        if (torch := sys.modules.get("torch")) is not None:
            with contextlib.suppress(Exception):
                facts = environment.torch_facts(torch)
                facts.at = time.time()
                self._waiting.appendleft(as_line(facts))

    def _flush(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._kept:  # From when the disk was full.
                self._write_kept()
            while self._waiting:
                for _ in range(min(len(self._waiting), _BATCH)):
                    self._keep(self._waiting.popleft())
                self._write_kept()
                if os.fstat(self._descriptor).st_size > self._part_bytes():
                    self._next_part()

    def _part_bytes(self) -> int:
        return max(_LEAST_PART, self._most_bytes // _PARTS)

    def _next_part(self) -> None:
        """Begin another file. Older ones are removed to make room: parts between the first and the last of a process,
        then first ones.
        """
        self._close_file()
        self._part += 1
        files = {path: path.stat() for path in self._path.parent.iterdir()}
        room = self._most_bytes - sum(each.st_size for each in files.values())
        own = self._path.with_name(f"{self._name}.0.jsonl")
        old = sorted(
            (path.name.endswith(".0.jsonl"), each.st_mtime, path) for path, each in files.items() if path != own
        )
        for *_, path in old:
            if room >= self._part_bytes():
                break
            room += files[path].st_size
            path.unlink(missing_ok=True)

    def file_name(self) -> str:
        return f"{self._name}.{self._part}.jsonl"

    def first_events(self) -> list[Event]:
        now = self._state()
        return [
            *super().first_events(),
            RankSeen(rank=now.rank, host=now.host, world=now.world, restart=now.restart, part=self._part),
            StepReached(number=max(0, self._reached)),
        ]

    def _renew(self, state: RankState) -> None:
        state.lost, state.ended, state.began, state.at = self._lost + self._dropped, self._over, self._began, 0.0
        text = json.dumps(asdict(state))
        if text == self._written:
            return
        self._written, state.at = text, time.time()
        with contextlib.suppress(OSError):
            folder = self.run / STATES_FOLDER
            folder.mkdir(mode=0o700, exist_ok=True)
            new = folder / f"{self._name}.new"
            new.write_text(json.dumps(asdict(state)), encoding="utf-8")
            new.replace(folder / f"{self._name}.json")

    def _after_fork(self) -> None:
        super()._after_fork()
        self._waiting = collections.deque(maxlen=_MOST_WAITING)
        self._wake = threading.Event()
        self._forget_process()

    def _forget_process(self) -> None:
        self.thread = None
        self._beginning = threading.Lock()
        self._over = False
        self._began = time.time()
        self._name, self._part = f"{os.getpid()}-{time.time_ns()}", 0
        self._reached, self._lost = -1, 0
        self._kinds, self._left_out, self._counted = {}, {}, {}
