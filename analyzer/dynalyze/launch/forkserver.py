"""The parent's end of a fork server: start it, ask it for children, notice its death. See `capture.forkserver`."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path

from dynalyze.files.temporary import FOR_SOCKETS, TemporaryFolder
from dynalyze.launch.run import START
from dynalyze.launch.supervised import Supervised
from dynalyze.text.errors import UsageError

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
    """A running fork server, below a supervisor: it and all that it forked die with this process.

    `what` are the arguments of start.py. The output of the server and its children goes to the descriptors `output`,
    by default to a log of its own. `attend` is called while waiting. Raises UsageError where the interpreter cannot
    import what is needed; unless `awaited`, `wait` does.
    """

    def __init__(
        self,
        python: str,
        env: Mapping[str, str],
        what: Sequence[str],
        output: tuple[int, int] | None = None,
        attend: Callable[[], None] = lambda: None,
        *,
        awaited: bool = True,
    ) -> None:
        self._attend = attend
        self._python = python
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(TemporaryFolder("fork", longest=FOR_SOCKETS))
            self.address = str(folder / "socket")
            self._log = folder / "log"
            serve, *more = what
            command = [python, str(START), serve, self.address, *more]
            with self._log.open("ab") as log:
                own = (log.fileno(), log.fileno())
                self._process = stack.enter_context(Supervised(command, env, *(output or own)))
            if awaited:
                self.wait()
            self._stack = stack.pop_all()

    @property
    def alive(self) -> bool:
        self._process.wait(0)
        return not (self._process.exited or self._process.done)

    def close(self) -> None:
        """End it and all that it forked."""
        self._stack.close()

    def wait(self) -> None:
        """Wait until it listens; raises what the constructor raises."""
        deadline = time.monotonic() + _START_SECONDS
        while not Path(self.address).exists():
            self._attend()
            if not self.alive or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace").strip().splitlines()
                raise UsageError(
                    f"{self._python} cannot prepare for models of libraries: {said[-1] if said else 'it wrote nothing'}"
                )
            self._process.wait(_WAIT_SECONDS)


class Forked:
    """A child of a fork server for the request in `folder`, with the methods of `Supervised`.

    Leaving the `with` block ends what is left of it. `environment` is added to the server's. Where the server dies the
    child dies with it, without an `answer`. Raises ServerLost where the server is dead.
    """

    def __init__(
        self,
        address: str,
        folder: Path,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        memory: int | None = None,
    ) -> None:
        self.exited = False
        self.exit_status: int | None = None
        self.answer: Answer | None = None
        request = {"folder": str(folder), "timeout": timeout, "memory": memory, "environment": dict(environment or {})}
        self._connection = _requested(address, request)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.exited:
            self.kill()
            self.wait(_LAST_WAIT_SECONDS)
        self._connection.close()

    def kill(self) -> None:
        """End it and everything below it at once."""
        with contextlib.suppress(OSError):
            self._connection.send_bytes(b"")

    def wait(self, seconds: float | None) -> None:
        """Wait for its end, but no longer than this."""
        if self.exited or not self._connection.poll(None if seconds is None else max(0.0, seconds)):
            return
        self.exited, self.exit_status = True, -signal.SIGKILL
        with contextlib.suppress(EOFError, OSError):
            self.answer = Answer(**json.loads(self._connection.recv_bytes()))
            self.exit_status = self.answer.status


def run_forked(address: str, folder: Path, timeout: float, memory: int | None) -> Answer:
    """How a forked child for the request in `folder` ended. Raises ServerLost where the server died, or was dead."""
    with Forked(address, folder, timeout, memory=memory) as child:
        child.wait(None)
        if child.answer is None:
            raise ServerLost("the fork server ended")
        return child.answer


def have_imported(address: str, modules: Sequence[str], attend: Callable[[], None]) -> str:
    """Have the server import these modules before it forks again; returns why it must not fork any more, "" where it
    may. Raises ServerLost where the server died, or was dead.
    """
    with _requested(address, {"import": list(modules)}) as connection:
        while not connection.poll(_WAIT_SECONDS):
            attend()
        try:
            return str(json.loads(connection.recv_bytes())["against"])
        except (EOFError, OSError) as error:
            raise ServerLost("the fork server ended") from error


def _requested(address: str, request: Mapping[str, object]) -> Connection[bytes, bytes]:
    try:
        connection = Client(address, "AF_UNIX")
        connection.send_bytes(json.dumps(request).encode())
    except OSError as error:
        raise ServerLost(str(error)) from error
    return connection
