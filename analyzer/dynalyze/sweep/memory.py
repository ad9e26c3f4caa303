"""How much memory the items of a sweep may hold, and a watch over one that runs in a process tree of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

from dynalyze.capture import process_tree

_LOOK_SECONDS = 0.5
# What an item needs at least, torch and transformers included: more workers than this allows would swap.
LEAST_BYTES = 3 << 29


class MemoryWatch:
    """Kills what was started below this process inside its `with` block once it holds more than `limit` bytes.

    `exceeded` tells that it did, `peak` is the most that was seen.
    """

    def __init__(self, limit: int | None) -> None:
        self.exceeded, self.peak = False, 0
        self._limit = 1 << 62 if limit is None else limit
        self._others = set[int]()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dynalyze-memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._others = _children(process_tree.processes())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            seen = process_tree.processes()
            own = _children(seen) - self._others
            pids = [pid for root in own for pid in process_tree.below(root, seen)]
            held = process_tree.memory_of(pids, seen, self._limit)
            self.peak = max(self.peak, held)
            if held > self._limit and pids:
                self.exceeded = True
                # All but the supervisors right below this process: they clean up, and tell how the target ended.
                for pid in pids:
                    with contextlib.suppress(OSError):
                        if seen[pid].parent != os.getpid():
                            os.kill(pid, signal.SIGKILL)


def _children(seen: dict[int, process_tree.Seen]) -> set[int]:
    return {pid for pid, each in seen.items() if each.parent == os.getpid()}
