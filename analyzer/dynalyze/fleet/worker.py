"""A local worker: `PYTHON worker.py`, one item at a time, lines of JSON on its standard input and output.

The first line is its `Briefing`, each further one a `Task`; it answers each task with a `Result`. The end of its input
is the end of the sweep, however that came: it leaves at once, and what it had started is killed by its supervisor. At
SIGTERM it waits for that.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import BinaryIO

if __name__ == "__main__":  # The package may be on no path here; its own folder is, and hides other modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import msgspec

from dynalyze.fleet.folder import store
from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished, RunSettings, lost_item, run_item
from dynalyze.launch.forkserver import ServerLost
from dynalyze.sweep.records import Row


class Briefing(msgspec.Struct):
    """What a worker knows of the sweep. Reports and pages go to `folder`, what runs are write to `scratch`."""

    settings: RunSettings
    folder: str
    scratch: str


class Task(msgspec.Struct):
    """`address`: that of the fork server of the moment."""

    item: Item
    address: str | None
    attempt: int = 1


class Result(msgspec.Struct):
    """Without a row the fork server was lost. The files of the row are written by then."""

    row: Row | None
    output: str = ""


def main() -> None:
    tasks, answers = _own_streams()
    briefing = msgspec.json.decode(tasks.readline(), type=Briefing)
    tempfile.tempdir = briefing.scratch
    os.environ.update(briefing.settings.env)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, lines), daemon=True).start()
    signal.signal(signal.SIGTERM, _leave)
    while True:
        task = msgspec.json.decode(lines.get(), type=Task)
        answers.write(msgspec.json.encode(_result(task, briefing)) + b"\n")
        answers.flush()


def _leave(number: int, frame: FrameType | None) -> None:
    """What runs is ended and cleared away on the way out."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes from and to the pool, where nothing that runs here can read or write: it gets our other streams."""
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    return tasks, answers


def _listen(source: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    for line in source:
        lines.put(line)
    os._exit(0)


def _result(task: Task, briefing: Briefing) -> Result:
    try:
        finished = run_item(task.item, briefing.settings, task.address)
    except ServerLost:
        return Result(None)
    except Exception as error:  # A fault of ours costs one item, and is told.
        finished = _fault(task.item, error)
    finished.row.attempts = task.attempt
    store(Path(briefing.folder), task.item, finished, hide_names=briefing.settings.redact)
    return Result(finished.row, finished.output)


def _fault(item: Item, error: Exception) -> Finished:
    import traceback

    traceback.print_exc()
    return lost_item(item, f"dynalyze itself failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
