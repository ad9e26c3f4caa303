"""The smallest possible parent of a measuring process: starts a real one and gives it orders."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from warm_starts import forking

from dynalyze.capture.bench.protocol import SOCKET_FILE, Configuration, WorkerRequest
from dynalyze.capture.wire import REQUEST_FILE
from dynalyze.launch.run import START
from limits import WALL_SECONDS

EAGER = Configuration("eager", compile=False)
BY_EAGER_BACKEND = Configuration("compiled", backend="eager")


class Process:
    """A worker that is running."""

    def __init__(self, process: subprocess.Popen[str], connection: Connection) -> None:
        self.process = process
        self._connection = connection

    def order(self, do: str, **fields: Any) -> dict[str, Any]:
        """Give an order and wait for its answer, whatever it is."""
        self._connection.send_bytes(json.dumps({"do": do, **fields}).encode())
        return json.loads(self._connection.recv_bytes())

    def done(self, do: str, **fields: Any) -> dict[str, Any]:
        """An order that must succeed."""
        answer = self.order(do, **fields)
        assert answer["ok"], answer
        return answer

    def refused(self, do: str, **fields: Any) -> dict[str, Any]:
        """The error of an order that must fail."""
        answer = self.order(do, **fields)
        assert not answer["ok"], answer
        return answer["error"]

    def until_warm(self, **limits: Any) -> dict[str, Any]:
        self.done("load")
        return self.done("warm", **{"seconds": 20, "most": 40, **limits})

    def end(self) -> tuple[int, str, str]:
        """Exit status and what the target wrote to its streams."""
        self.done("end")
        out, err = self.process.communicate(timeout=WALL_SECONDS)
        return self.process.returncode, out, err


def of_object(path: Path, name: str, inputs: list[str] | None = None, **fields: Any) -> WorkerRequest:
    """A request for FILE:NAME."""
    source = {
        "kind": "object",
        "path": str(path),
        "module": None,
        "name": name,
        "inputs": inputs or [],
        "arguments": [],
    }
    return WorkerRequest(source=source, **{"configuration": BY_EAGER_BACKEND, "threads": 1, **fields})


@contextlib.contextmanager
def started(request: WorkerRequest, *, new: bool = False, **environment: str) -> Iterator[Process]:
    """A worker for `request`, killed at the end if it still lives; `new`: one that imports torch for itself."""
    program = Path(request.source["path"])
    python, variables = (sys.executable, {}) if new else forking(environment, program=program)
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        folder = Path(name)
        (folder / REQUEST_FILE).write_text(json.dumps(dataclasses.asdict(request)))
        listening.bind(str(folder / SOCKET_FILE))
        listening.listen(1)
        listening.settimeout(60)
        process = subprocess.Popen(
            [python, str(START), "measure", str(folder)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **environment, **variables},
        )  # fmt: skip
        try:
            accepted, _ = listening.accept()
            accepted.setblocking(True)
            with Connection(accepted.detach()) as connection:
                yield Process(process, connection)
        finally:
            process.kill()
            process.communicate()
