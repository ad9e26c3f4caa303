"""The parent's end of the fork server: start it, ask it for items, notice its death."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import dynalyze
from dynalyze.errors import UsageError
from dynalyze.launch.supervised import Supervised

_START = Path(dynalyze.__file__).resolve().parent / "capture" / "start_fleet.py"
# numpy's library would start its threads when it is imported, which is before the fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
_START_SECONDS = 300.0
_WAIT_SECONDS = 0.02


class ServerLost(Exception):
    """The fork server died while an item ran, of itself or of what the item did."""


@dataclass(frozen=True)
class Answer:
    """How a forked child ended: `status` as subprocess has it, `maxrss` in bytes."""

    reason: str
    status: int
    seconds: float
    maxrss: int


class ForkServer:
    """A running fork server, below a supervisor: it dies with this process, and everything it forked with it.

    What the `backends` need is imported before it forks.

    Raises:
        UsageError: the interpreter cannot import what is needed; the message says what.
    """

    def __init__(self, python: str, env: Mapping[str, str], backends: tuple[str, ...] = ()) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dynalyze-fork-"))
        self.address = str(self._folder / "socket")
        self._log = self._folder / "log"
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            command = [python, str(_START), "serve", self.address, *backends]
            self._process = Supervised(command, {**_ONE_THREAD, **env}, None, output, output)
        except BaseException:
            self._remove()
            raise
        finally:
            os.close(output)
        try:
            self._wait_until_it_listens(python)
        except BaseException:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        self._process.wait(0)
        return not (self._process.exited or self._process.done)

    def close(self) -> None:
        """End it and all that it forked."""
        self._process.__exit__(None, None, None)
        self._remove()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until_it_listens(self, python: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not Path(self.address).exists():
            if not self.alive or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace").strip().splitlines()
                raise UsageError(f"{python} cannot prepare for hf: targets: {said[-1] if said else 'it wrote nothing'}")
            self._process.wait(_WAIT_SECONDS)

    def _remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def ask(address: str, folder: Path, timeout: float, memory: int | None) -> Answer:
    """Have the request in `folder` run by a forked child, and wait for its end.

    Raises:
        ServerLost: the server died, or was dead.
    """
    request = {"folder": str(folder), "timeout": timeout, "memory": memory}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = _until_closed(connection)
        except OSError as error:
            raise ServerLost(str(error)) from error
    if not answer.endswith(b"\n"):
        raise ServerLost("the fork server ended")
    return Answer(**json.loads(answer))


def _until_closed(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    return data
