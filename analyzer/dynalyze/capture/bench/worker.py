"""A measuring process: takes one order after the other from its parent, and answers each. See `wire`.

There is no listener in it and none in what it starts: everything runs as it would without dynalyze.
"""

from __future__ import annotations

import io
import json
import math
import os
import socket
import sys
from pathlib import Path
from typing import Any

from dynalyze.capture.bench.forking import imported_modules
from dynalyze.capture.bench.session import Session
from dynalyze.capture.bench.wire import REQUEST_FILE, SOCKET_FILE, Configuration, WorkerRequest
from dynalyze.capture.wire import RUN_VARIABLE, TRACE_VARIABLE

_CAPTURE = Path(__file__).resolve().parents[1]


def main(run: Path) -> int:
    """Serve the parent that listens in `run` until it says `end` or goes away."""
    request = read_request(json.loads((run / REQUEST_FILE).read_text(encoding="utf-8")))
    connection = _connect(run)
    _live_unobserved()
    session = Session(request)
    with connection, connection.makefile("r", encoding="utf-8") as lines:
        for line in lines:
            order = json.loads(line)
            if order["do"] == "end":
                _send(connection, {"ok": True, "modules": imported_modules() if order.get("modules") else []})
                break
            _send(connection, session.obey(order))
    _leave()
    return 0


def read_request(fields: dict[str, Any]) -> WorkerRequest:
    """A request out of its JSON."""
    return WorkerRequest(**{**fields, "configuration": Configuration(**fields["configuration"])})


def _connect(folder: Path) -> socket.socket:
    """By a relative name: the path of a socket must not be longer than some hundred bytes."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = Path.cwd()
    os.chdir(folder)
    try:
        connection.connect(SOCKET_FILE)
    finally:
        os.chdir(before)
    return connection


def _live_unobserved() -> None:
    """Leave nothing of a recording run to this process nor to those that it starts."""
    boot = str(_CAPTURE / "boot")
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != boot]
    os.environ.update({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})
    for name in (TRACE_VARIABLE, RUN_VARIABLE, *([] if paths else ["PYTHONPATH"])):
        os.environ.pop(name, None)
    if sys.path and Path(sys.path[0] or os.curdir).resolve() == _CAPTURE:
        del sys.path[0]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    connection.sendall(json.dumps(_finite(answer), allow_nan=False).encode() + b"\n")


def _finite(value: Any) -> Any:
    """JSON has no infinities: a number that is none becomes null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _leave() -> None:
    """End at once: the target's exit handlers and threads have no say in a measurement."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue
    os._exit(0)
