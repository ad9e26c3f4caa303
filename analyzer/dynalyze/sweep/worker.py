"""A local worker: `PYTHON worker.py DESCRIPTOR`, one item at a time, messages of JSON over a connection.

It answers each `Task` with what came of it, or null where the fork server was lost. The end of the connection is the
end of the sweep, however that came: it ends what runs, and leaves.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

if __name__ == "__main__":  # The package may be on no path here; its own folder is, and hides other modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import msgspec

from dynalyze.launch.forkserver import ServerLost
from dynalyze.sweep.folder import store
from dynalyze.sweep.records import Item
from dynalyze.sweep.work import Finished, RunSettings, run_item

# What does not end within this long is left to its supervisor, which kills it when this process is gone.
_LAST_SECONDS = 30.0


class Task(msgspec.Struct):
    """Reports and pages go to `folder`, what runs are write to `scratch`; `address`: the fork server of the moment."""

    item: Item
    settings: RunSettings
    folder: str
    scratch: str
    address: str | None
    attempt: int


def main(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    serve(Connection(descriptor), lambda data: msgspec.json.encode(_finished(msgspec.json.decode(data, type=Task))))


def serve(connection: Connection[bytes, bytes], answer: Callable[[bytes], bytes]) -> None:
    """Answer each message until the connection ends: SystemExit ends what runs then, which cleans up."""
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_listen, args=(connection, messages), daemon=True).start()
    try:
        while True:
            connection.send_bytes(answer(messages.get()))
    except OSError:  # The other end is gone.
        return
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _listen(connection: Connection[bytes, bytes], messages: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            messages.put(connection.recv_bytes())
    except (EOFError, OSError):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        time.sleep(_LAST_SECONDS)
        os._exit(1)


def _finished(task: Task) -> Finished | None:
    """The row of a task, whose files are written, and its output; None where the fork server was lost."""
    tempfile.tempdir = task.scratch
    os.environ.update(task.settings.env)
    try:
        finished = run_item(task.item, task.settings, task.address)
    except ServerLost:
        return None
    finished.row.attempts = task.attempt
    store(Path(task.folder), task.item, finished, hide_names=task.settings.redact)
    return Finished(finished.row, output=finished.output)


if __name__ == "__main__":
    main(int(sys.argv[1]))
