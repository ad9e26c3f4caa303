"""The measuring processes: started under supervision, spoken to over a socket, ended with all they started."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import msgspec

from dynalyze.capture.bench.commands import End, Loaded
from dynalyze.capture.bench.protocol import BESIDE, SOCKET_FILE, Answer, Command, Failure, WorkerRequest
from dynalyze.capture.wire import REQUEST_FILE
from dynalyze.files.temporary import FOR_SOCKETS, TemporaryFolder
from dynalyze.launch.forkserver import Forked, ForkServer, ServerLost, have_imported
from dynalyze.launch.interrupts import Interrupts
from dynalyze.launch.run import NOTHING_REMEMBERED, START, cache_variables, exit_status
from dynalyze.launch.sandbox import Sandbox
from dynalyze.launch.streams import Pump, Streams
from dynalyze.launch.supervised import Supervised
from dynalyze.text.errors import UsageError

_ROUND_SECONDS = 0.2
_FAREWELL_SECONDS = 1.0
# A recording inside a process that measures would be measured too.
_RECORDING = ("TORCH_TRACE", "DYNALYZE_RUN", "INDUCTOR_PROVENANCE")
# Of OpenMP, where nobody has set it: threads that spin keep their processors from whatever runs beside them.
_WAIT_ASLEEP = ("OMP_WAIT_POLICY", "PASSIVE")

OUT_OF_TIME = "its process took longer than"
"""How the message of a WorkerFailed begins whose process reached its limit."""

FailureKind = Failure | Literal["died", "timed_out"]


class WorkerFailed(Exception):
    """A command failed; the message is one line, `who` the worker's configuration."""

    def __init__(self, kind: FailureKind, message: str, who: str = "") -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message
        self.who = who


class Stopped(Exception):
    """The whole benchmark ends here, with what it has."""

    def __init__(self, reason: Literal["interrupted", "out_of_time"]) -> None:
        super().__init__(reason)
        self.reason = reason


class WorkerPool:
    """Starts workers. Leaving its `with` block ends those still running, and removes their folders.

    `seconds` limits one worker, `total` the whole benchmark. `untimed` workers share the machine: their threads sleep
    while they wait, instead of spinning.
    """

    def __init__(
        self, streams: Streams, seconds: float, total: float | None = None, *, python: str | None = None,
        start: Path = START, waiting: Callable[[], None] = lambda: None, untimed: bool = False,
        sandboxed: bool = False,
    ) -> None:  # fmt: skip
        self.streams = streams
        self._waiting = waiting
        self._sandboxed = sandboxed
        self._seconds = seconds
        self._python = python or sys.executable
        self._start = start
        self._environment = {k: v for k, v in os.environ.items() if k not in _RECORDING}
        self._environment |= NOTHING_REMEMBERED
        if untimed:
            self._environment.setdefault(*_WAIT_ASLEEP)
        self._end = math.inf if total is None else time.monotonic() + total
        self._stack = ExitStack()
        self._made = 0

    def __enter__(self) -> WorkerPool:
        with ExitStack() as stack:
            self.folder = stack.enter_context(TemporaryFolder(longest=FOR_SOCKETS))
            stack.callback(self.streams.close)
            self._pump = stack.enter_context(Pump(self.streams))
            self._interrupts = stack.enter_context(Interrupts())
            self._forks: dict[str, Forks] = {}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def empty_caches(self) -> Path:
        """A new folder for the compiler's caches."""
        return self._fresh("caches")

    def worker(
        self, request: WorkerRequest, caches: Path | None, *, new: bool = False, python: str | None = None
    ) -> Worker:
        """A process that keeps its caches in this folder, or (None) where a program of the user's would. Use it in a
        `with` block.

        Unless it is to be `new`, it may be forked off a server that has done its imports: its memory then lacks
        pages that both share. `python` is another interpreter than that of the pool.
        """
        self.attend()
        interpreter = python or self._python
        forks = self._forks_of(interpreter)
        folder = self._fresh("worker")
        (folder / REQUEST_FILE).write_text(json.dumps(asdict(request)), encoding="utf-8")
        own = {} if caches is None else cache_variables(caches)

        def start() -> Supervised | Forked:
            forked = None if new else forks.child(request, folder, self._seconds, own)
            if forked is not None:
                return forked
            command = [interpreter, str(self._start), "measure", str(folder)]
            if self._sandboxed:
                command = Sandbox([str(self.folder)]).command(command, folder)
            return Supervised(command, {**self._environment, **own}, self._pump.stdout, self._pump.stderr)

        learn = None if forks.refused else forks.learn
        return Worker(request.configuration.name, folder, self, start, self._seconds, learn)

    def _forks_of(self, python: str) -> Forks:
        if python not in self._forks:
            forks = Forks(python, self._environment, (self._pump.stdout, self._pump.stderr), self.attend)
            if self._start != START:
                forks.refused = "another program measures"
            elif self._sandboxed:
                forks.refused = "each process has a sandbox of its own"
            self._stack.callback(forks.close)
            self._forks[python] = forks
        return self._forks[python]

    def exit_status(self, script: Path, caches: Path, seconds: float) -> int | None:
        """Run a script under the interpreter of the workers, without its output; None if it took longer
        than `seconds`.
        """
        end = time.monotonic() + seconds

        def overdue() -> bool:
            self.attend()
            return time.monotonic() > end

        environment = {**self._environment, **cache_variables(caches)}
        return exit_status([self._python, str(script)], environment, Path(os.devnull), overdue)

    def prepare(self, request: WorkerRequest) -> None:
        """Start the server that the process for this request will be forked off, without waiting for it."""
        self._forks_of(self._python).prepare(request)

    def prepare_beside(self, *needs: str) -> None:
        """Have the server import while a program runs: `needs` are prefixes of libraries, and "inductor". It uses what
        the program leaves of the machine; with one processor it is not started.
        """
        self._forks_of(self._python).start_beside(needs)

    def begin(self, total: float | None, waiting: Callable[[], None]) -> None:
        """Limit the whole benchmark to so many seconds from now; `waiting` is called meanwhile."""
        self._end = math.inf if total is None else time.monotonic() + total
        self._waiting = waiting

    @property
    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    @property
    def interrupted(self) -> bool:
        return self._interrupts.count > 0

    def attend(self) -> None:
        """Called several times a second. Raises Stopped after Ctrl-C, or when the time is up."""
        self._waiting()
        if self.interrupted:
            raise Stopped("interrupted")
        if self.seconds_left < 0:
            raise Stopped("out_of_time")

    def _fresh(self, name: str) -> Path:
        self._made += 1
        folder = self.folder / f"{name}{self._made}"
        folder.mkdir(mode=0o700)
        return folder


class Worker:
    """One process. `ask` sends a command and waits for its answer.

    `seconds` limits it. `learn` gets what it has imported, once it ends. `load` is its answer to that command, if it
    was kept.
    """

    def __init__(
        self, name: str, folder: Path, pool: WorkerPool, start: Callable[[], Supervised | Forked], seconds: float,
        learn: Callable[[list[str]], None] | None,
    ) -> None:  # fmt: skip
        self._name = name
        self.load = Loaded()
        self.folder = folder
        self._pool = pool
        self._learn = learn
        self._end = time.monotonic() + seconds
        self._limit = f"--timeout ({seconds:g} s)"
        self._connection: Connection[bytes, bytes] | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(folder / SOCKET_FILE))
            self._listener.listen(1)
            self._process = start()
        except BaseException:
            self._listener.close()
            raise

    @property
    def forked(self) -> bool:
        """Whether its imports were done before it started."""
        return isinstance(self._process, Forked)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None and self._connection is not None and not self._process.exited:
                self._say_farewell()
        finally:
            self._process.__exit__(kind, *error)
            self._listener.close()
            if self._connection is not None:
                self._connection.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def end_after(self, seconds: float) -> None:
        if time.monotonic() + seconds < self._end:
            self._end, self._limit = time.monotonic() + seconds, f"the {seconds:.0f} s that it was given"

    def ask(self, command: Command[Answer]) -> Answer:
        """The answer to a command. Raises WorkerFailed, and Stopped if the benchmark ends."""
        self.send(command)
        return self.receive(type(command))

    def send(self, command: Command[Any]) -> None:
        """Send a command without waiting; `receive` has to follow."""
        message = {"do": command.do, **asdict(command)}  # type: ignore[call-overload]
        connection = self._connected()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `receive` tells how it died
            connection.send_bytes(json.dumps(message).encode())

    def receive(self, kind: type[Command[Answer]]) -> Answer:
        """Wait for the answer to the last command, which was of this kind; raises what `ask` raises."""
        connection = self._connected()
        self._wait_for(connection)
        try:
            answer: dict[str, Any] = json.loads(connection.recv_bytes())
            if answer.get("ok"):
                return msgspec.convert(answer, kind.answer)
        except (EOFError, OSError):
            raise self._death() from None
        except ValueError as error:  # No JSON, or an answer of another kind.
            raise self._failed("internal", f"the measuring process gave another answer: {error}") from error
        problem = answer.get("error") or {}
        raise self._failed(problem.get("kind", "internal"), problem.get("message", "it failed without a reason"))

    def _connected(self) -> Connection[bytes, bytes]:
        if self._connection is None:
            self._wait_for(self._listener)
            accepted, _ = self._listener.accept()
            self._connection = Connection(accepted.detach())
        return self._connection

    def _wait_for(self, source: socket.socket | Connection[bytes, bytes]) -> None:
        """Wait until there is something to read, while the process lives and there is time."""
        while not wait([source], _ROUND_SECONDS):
            self._pool.attend()
            self._process.wait(0)
            if self._process.exited and not wait([source], 0):
                raise self._death()
            if time.monotonic() > self._end:
                self._process.kill()
                raise self._failed("timed_out", f"{OUT_OF_TIME} {self._limit}")

    def _death(self) -> WorkerFailed:
        self._wait_for_the_end()
        status = self._process.exit_status
        if status is None:
            return self._failed("died", "the measuring process closed its connection")
        if status == -signal.SIGKILL:
            message = "the process was killed (SIGKILL), as the system does when memory runs out"
        elif status < 0:
            name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
            message = f"the process was killed by {name}"
        else:
            message = f"the process ended with exit status {status} while it was measured"
        said = self._pool.streams.last_lines() if self._connection is None else []
        return self._failed("died", f"{message}: {said[-1].strip()}" if said else message)

    def _failed(self, kind: FailureKind, message: str) -> WorkerFailed:
        return WorkerFailed(kind, message, self._name)

    def _say_farewell(self) -> None:
        with contextlib.suppress(WorkerFailed, OSError, Stopped):  # What is done stays done where it was interrupted.
            answer = self.ask(End(modules=self._learn is not None))
            if self._learn is not None:
                self._learn(answer.modules)
        self._wait_for_the_end()

    def _wait_for_the_end(self) -> None:
        end = time.monotonic() + _FAREWELL_SECONDS
        while not self._process.exited and (left := end - time.monotonic()) > 0:
            self._process.wait(left)


class Forks:
    """The fork server of a benchmark, started with the first process to be forked.

    It imports what earlier processes have imported before it forks the next. `refused` says why nothing is forked (any
    more): then every process is started by itself.
    """

    def __init__(
        self, python: str, environment: Mapping[str, str], output: tuple[int, int], attend: Callable[[], None]
    ) -> None:
        self._start = partial(ForkServer, python, environment, output=output, attend=attend)
        self._attend = attend
        self._server: ForkServer | None = None
        self._known: set[str] = set()
        self._wanted: list[str] = []
        # macOS loads frameworks that do not survive a fork.
        self.refused = "" if sys.platform.startswith("linux") else f"{sys.platform} does not fork safely"

    def child(
        self, request: WorkerRequest, folder: Path, seconds: float, environment: Mapping[str, str]
    ) -> Forked | None:
        """A process for what `folder` asks for; None if it has to be started by itself.

        A program that is run again does its own imports.
        """
        if not self._forks(request):
            return None
        try:
            return Forked(self._ready(request).address, folder, seconds, environment)
        except (UsageError, ServerLost) as problem:
            self.refused = str(problem)
            self.close()
            return None

    def start_beside(self, needs: Sequence[str]) -> None:
        """Start the server beside a program, without waiting for it."""
        if not self.refused and len(os.sched_getaffinity(0)) > 1:
            self._server = self._start(["fork-measures", BESIDE, *needs], awaited=False)

    def prepare(self, request: WorkerRequest) -> None:
        """Start the server if there is none, without waiting for it."""
        if self._server is None and self._forks(request):
            with contextlib.suppress(UsageError):  # It is tried once more when it is needed.
                self._server = self._start(["fork-measures", *_needs(request)], awaited=False)

    def learn(self, modules: list[str]) -> None:
        self._wanted += [name for name in modules if name not in self._known]
        self._known.update(modules)

    def _forks(self, request: WorkerRequest) -> bool:
        return not self.refused and request.source.get("kind") != "program"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _ready(self, request: WorkerRequest) -> ForkServer:
        if self._server is None:
            self._server = self._start(["fork-measures", *_needs(request)])
        self._server.wait()
        wanted, self._wanted = self._wanted, []
        if wanted and (against := have_imported(self._server.address, wanted, self._attend)):
            raise ServerLost(against)
        return self._server


def _needs(request: WorkerRequest) -> list[str]:
    """What the server imports at its start, besides torch."""
    compiles = request.configuration.compile and request.configuration.backend == "inductor"
    checked = any(each["compile"] and each["backend"] == "inductor" for each in request.extra.get("check", ()))
    library = [request.source["library"]] if request.source.get("kind") == "library" else []
    return [*library, *["inductor"] * (compiles or checked)]
