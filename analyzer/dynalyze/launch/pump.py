"""A thread that empties the target's pipes, so that the target never waits for us."""

from __future__ import annotations

import os
import select
import threading
from types import TracebackType

from dynalyze.launch.prefix import Source
from dynalyze.launch.streams import Streams

_CHUNK = 64 * 1024
# No pipe holds more (Linux's default limit for a pipe is this); what is in it is all that a dead writer left.
_MOST_LEFT_BEHIND = 1024 * 1024


class Pump:
    """Reads two pipes into Streams inside its `with` block; `stdout` and `stderr` are the ends to write to.

    Leaving the block passes on what is still in the pipes and closes them, whoever else holds the other ends.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        out, self.stdout = os.pipe()
        error, self.stderr = os.pipe()
        self._pipes: dict[int, Source] = {out: "stdout", error: "stderr"}
        self._finish, self._finisher = os.pipe()
        self._thread = threading.Thread(target=self._run, name="dynalyze-pump", daemon=True)

    def __enter__(self) -> Pump:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._finisher, self.stdout, self.stderr):
            os.close(descriptor)
        self._thread.join()

    def _run(self) -> None:
        poller = select.poll()
        for reader in (*self._pipes, self._finish):
            poller.register(reader, select.POLLIN)
        while self._finish not in (ready := [descriptor for descriptor, _ in poller.poll()]):
            for reader in ready:
                self._pass_on(reader)
        for reader in self._pipes:
            self._drain(reader)
        for descriptor in (*self._pipes, self._finish):
            os.close(descriptor)

    def _pass_on(self, reader: int) -> int:
        data = os.read(reader, _CHUNK)
        if data:
            self._streams.feed(self._pipes[reader], data)
        return len(data)

    def _drain(self, reader: int) -> None:
        os.set_blocking(reader, False)
        left = _MOST_LEFT_BEHIND
        try:
            while left > 0 and (count := self._pass_on(reader)):
                left -= count
        except BlockingIOError:  # empty, and something still holds the other end
            return
