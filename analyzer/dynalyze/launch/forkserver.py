"""The parent's end of a fork server: start it, ask it for children, notice its death. See `capture.forkserver`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import dynalyze
from dynalyze.files.temporary import FOR_SOCKETS, TemporaryFolder
from dynalyze.launch.supervised import Supervised
from dynalyze.text.errors import UsageError

_START = Path(dynalyze.__file__).resolve().parent / "capture" / "start_fleet.py"
_START_SECONDS = 300.0
_WAIT_SECONDS = 0.02
_LAST_WAIT_SECONDS = 5.0


class ServerLost(Exception):
    """The fork server died while a child of it was at work, of itself or of what the child did."""


@dataclass(frozen=True)
class Answer:
    """How a forked child ended: `status` as subprocess has it, `maxrss` in bytes."""

    reason: str
    status: int
    seconds: float
    maxrss: int


class ForkServer:
    """A running fork server, below a supervisor: it dies with this process, and everything it forked with it.

    `what` is what start_fleet.py is to serve, after an address. The server's output, which may be its children's
    too, goes to `output` (standard output and error), else to a log of its own. `attend` is called while one waits.

    Raises:
        UsageError: the interpreter cannot import what is needed; the message says what.
    """

    def __init__(
        self,
        python: str,
        env: Mapping[str, str],
        what: Sequence[str],
        output: tuple[int, int] | None = None,
        attend: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = TemporaryFolder("fork", longest=FOR_SOCKETS)
        self.address = str(self._folder.path / "socket")
        self._attend = attend
        self._log = self._folder.path / "log"
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            serve, *more = what
            command = [python, str(_START), serve, self.address, *more]
            self._process = Supervised(command, env, None, *(output or (log, log)))
        except BaseException:
            self._folder.remove()
            raise
        finally:
            os.close(log)
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
        self._folder.remove()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until_it_listens(self, python: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not Path(self.address).exists():
            self._attend()
            if not self.alive or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace").strip().splitlines()
                raise UsageError(f"{python} cannot prepare for hf: targets: {said[-1] if said else 'it wrote nothing'}")
            self._process.wait(_WAIT_SECONDS)


class Forked:
    """A child of a fork server, as `Supervised` is one of ours. Leaving the `with` block ends what is left of it.

    `environment` is set in it beside the server's. Where the server dies the child dies with it.
    """

    def __init__(self, address: str, folder: Path, timeout: float, environment: Mapping[str, str]) -> None:
        self.exited = False
        self.exit_status: int | None = None
        request = {"folder": str(folder), "timeout": timeout, "memory": None, "environment": dict(environment)}
        self._connection = _asked(address, request)
        self._heard = b""
        self._poller = select.poll()
        self._poller.register(self._connection, select.POLLIN)

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.exited:
            self.kill()
            self.wait(_LAST_WAIT_SECONDS)
        self._connection.close()

    def kill(self) -> None:
        """Ends it and everything below it at once."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)  # the server takes it as the order to kill

    def wait(self, seconds: float) -> None:
        """Waits for its end, but no longer than this."""
        if self.exited or not self._poller.poll(max(0.0, seconds) * 1000):
            return
        try:
            piece = self._connection.recv(65536)
        except OSError:
            piece = b""
        self._heard += piece
        if self._heard.endswith(b"\n"):
            self.exited, self.exit_status = True, Answer(**json.loads(self._heard)).status
        elif not piece:
            self.exited, self.exit_status = True, -signal.SIGKILL


def ask(address: str, folder: Path, timeout: float, memory: int | None) -> Answer:
    """Have the request in `folder` run by a forked child, and wait for its end.

    Raises:
        ServerLost: the server died, or was dead.
    """
    with _asked(address, {"folder": str(folder), "timeout": timeout, "memory": memory}) as connection:
        return Answer(**json.loads(_until_closed(connection)))


def have_imported(address: str, modules: Sequence[str], attend: Callable[[], None]) -> str:
    """Have the server import these before it forks again; returns why it must not fork any more, else nothing.

    Raises:
        ServerLost: the server died of it, or was dead.
    """
    with _asked(address, {"import": list(modules)}) as connection:
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        while not poller.poll(_WAIT_SECONDS * 1000):
            attend()
        return str(json.loads(_until_closed(connection))["against"])


def _asked(address: str, request: Mapping[str, object]) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
    except OSError as error:
        connection.close()
        raise ServerLost(str(error)) from error
    return connection


def _until_closed(connection: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            data += piece
    if not data.endswith(b"\n"):
        raise ServerLost("the fork server ended")
    return data
