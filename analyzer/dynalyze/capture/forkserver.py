"""A process that has imported torch and more once, and forks a child for each item of a sweep or for each measurement.

It listens on a Unix socket, as a listener of multiprocessing.connection does. A client sends one message, which is
JSON, and holds the connection until the answer:

    {"folder": RUN_FOLDER, "timeout": SECONDS, "memory": BYTES or null, "environment": {NAME: VALUE}}
    {"reason": "ended|timed_out|memory", "status": EXIT_STATUS, "seconds": 1.2, "maxrss": BYTES}

    {"import": [MODULE, ...]}
    {"against": "", or why nothing may be forked any more}

A client that hangs up, or sends an empty message, has its item killed. No tensor operation runs here: the thread pools
of torch do not survive a fork, and a child that waited for their threads would hang. What a child measures is in
capture/bench/forking.py.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from dynalyze.capture import process_tree
from dynalyze.capture.environment import torch_import_problem
from dynalyze.capture.libraries import PREFIXES, library
from dynalyze.capture.torch_private import dynamo
from dynalyze.capture.wire import OUTPUT_FILE

_NEEDED = ("torch", "torch._dynamo")
# What a first compile, and models of other modalities than text, import besides: a second of work for each child.
_HELPFUL = (
    "torch._dynamo.convert_frame", "functorch.compile", "torch.distributed.tensor.experimental",
    "transformers.audio_utils", "transformers.video_utils", "transformers.processing_utils",
    "dynalyze.capture.child", "dynalyze.capture.library_target", "dynalyze.capture.libraries.hf.inputs",
)  # fmt: skip
_INDUCTOR = ("torch._inductor.compile_fx",)
_LOOK_SECONDS = 0.5
_Child = Callable[[dict[str, Any]], NoReturn]
_Imports = Callable[[list[str]], str]
_PR_SET_PDEATHSIG = 1
_KIBIBYTE = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in


def serve(address: str, what: list[str]) -> int:
    """Import what is needed, for "inductor" and for libraries by their prefix, then fork for whoever connects."""
    if not import_torch(address):
        return 2
    prepare(what)
    listen(address, become)
    return 0


def import_torch(address: str) -> bool:
    """Whether that can be done, and this torch will do; else the log beside the address says why."""
    reason = torch_import_problem()
    if reason:
        Path(address).with_name("log").write_text(reason, encoding="utf-8")
    return not reason


def listen(address: str, child: _Child, imports: _Imports | None = None) -> None:
    """Fork for whoever connects. `child` is a forked child's life, for the request that it came from.

    `imports` gets modules that a client wants imported, and says why nothing may be forked after it.
    """
    set_aside()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address + ".new")
    listener.listen(256)
    Path(address + ".new").rename(address)  # Whoever sees it can connect.
    Server(listener, child, imports).run()


def set_aside() -> None:
    """Children share the pages of what was imported, and never look through them for garbage."""
    gc.collect()
    gc.freeze()


def prepare(what: list[str]) -> None:
    """Import what every model needs; of what most of them need, as much as this version has. Raises ImportError without
    torch.
    """
    for module in _NEEDED:
        importlib.import_module(module)
    for module in [*_HELPFUL, *(_INDUCTOR if "inductor" in what else ())]:
        with contextlib.suppress(Exception):  # Each child that needs it will say what is wrong with it.
            importlib.import_module(module)
    for prefix in set(PREFIXES) & set(what):
        library(prefix).preload()
    dynamo.backend_names()  # Imports every backend that torch brings along.


@dataclass
class ForkJob:
    """One item: its process (0 before the fork), the connection that waits for it, and its limits."""

    connection: Connection[bytes, bytes]
    pid: int = 0
    began: float = 0.0
    deadline: float = 0.0
    memory: int | None = None
    reason: str = "ended"
    known: set[int] = field(default_factory=set)


class Server:
    """One thread that waits for requests, hang-ups, ends of children and the clock."""

    def __init__(self, listener: socket.socket, child: _Child, imports: _Imports | None) -> None:
        self._listener = listener
        self._child = child
        self._imports = imports
        self._prctl = _load_prctl()
        self._jobs: list[ForkJob] = []
        self._next_look = 0.0
        self._signals, self._wake = os.pipe()
        for descriptor in (self._signals, self._wake):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._signals, selectors.EVENT_READ, self._drain)

    def run(self) -> None:
        while True:
            deadlines = [job.deadline for job in self._jobs if job.pid]
            patience = max(0.0, min(*deadlines, self._next_look) - time.monotonic()) if deadlines else None
            for key, _ in self._selector.select(patience):
                key.data()
            for job in [job for job in self._jobs if job.pid]:
                if ended := _ended(job.pid, partial(self._kill, job, job.reason)):
                    seconds, code = time.monotonic() - job.began, os.waitstatus_to_exitcode(ended[0])
                    self._answer(job, {"reason": job.reason, "status": code, "seconds": seconds, "maxrss": ended[1]})
            self._look()

    def _accept(self) -> None:
        accepted, _ = self._listener.accept()
        job = ForkJob(Connection(accepted.detach()))
        self._jobs.append(job)
        self._selector.register(job.connection, selectors.EVENT_READ, lambda: self._read(job))

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._signals, 4096):
                pass

    def _read(self, job: ForkJob) -> None:
        try:
            message = job.connection.recv_bytes()
        except (EOFError, OSError):
            message = b""
        if job.pid:
            self._selector.unregister(job.connection)  # Its end is still to be waited for.
            self._kill(job, "hung up")
        elif not message:
            self._forget(job)
        elif "import" in (request := json.loads(message)):
            against = "this server imports no more" if self._imports is None else self._imports(request["import"])
            set_aside()
            self._answer(job, {"against": against})
        else:
            self._start(job, request)

    def _start(self, job: ForkJob, request: dict[str, Any]) -> None:
        job.began = time.monotonic()
        job.deadline = job.began + request["timeout"]
        job.memory = request["memory"]
        sys.stdout.flush()
        sys.stderr.flush()
        job.pid = os.fork()
        if job.pid == 0:
            self._leave_to_child()
            if self._prctl is not None:
                self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            self._child(request)
        job.known = {job.pid}

    def _leave_to_child(self) -> None:
        """Nothing of the server's may stay open in a child: a connection would look alive after the server's death."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for job in self._jobs:
            job.connection.close()
        self._listener.close()
        os.close(self._signals)
        os.close(self._wake)

    def _look(self) -> None:
        """About twice a second: who is over a limit, and which processes belong to whom."""
        now = time.monotonic()
        for job in self._jobs:
            if job.pid and now >= job.deadline:
                job.deadline = now + _LOOK_SECONDS
                self._kill(job, "timed_out")
        if now < self._next_look or not any(job.pid for job in self._jobs):
            return
        self._next_look = now + _LOOK_SECONDS
        seen = process_tree.processes()
        for job in [job for job in self._jobs if job.pid]:
            pids = process_tree.below(job.pid, seen) if job.pid in seen else []
            job.known = {pid for pid in job.known if pid in seen} | set(pids)
            if job.memory is not None and process_tree.memory_of(pids, seen, job.memory) > job.memory:
                self._kill(job, "memory")

    def _kill(self, job: ForkJob, reason: str) -> None:
        """End its group, and what left the group but was seen below it."""
        if job.reason == "ended":
            job.reason = reason
        with contextlib.suppress(OSError):
            os.killpg(job.pid, signal.SIGKILL)
        seen = process_tree.processes() if len(job.known) > 1 else {}
        for pid in job.known - {job.pid}:
            # One that outlived its parent was adopted; a process id that was given away since has another parent.
            if pid in seen and (seen[pid].parent in job.known or seen[pid].parent == os.getppid()):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.kill(job.pid, signal.SIGKILL)  # It may not lead its group yet.

    def _answer(self, job: ForkJob, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # It hung up.
            job.connection.send_bytes(json.dumps(answer).encode())
        self._forget(job)

    def _forget(self, job: ForkJob) -> None:
        self._jobs.remove(job)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(job.connection)
        job.connection.close()


def become(request: dict[str, Any]) -> NoReturn:
    """The life of a forked item: what the child of `dynalyze explain` does, its output in a file of the run."""

    def main(folder: Path) -> int:
        empty = os.open(os.devnull, os.O_RDONLY)
        file = os.open(folder / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, stream in ((empty, 0), (file, 1), (file, 2)):
            os.dup2(source, stream)
        os.close(empty)
        os.close(file)
        from dynalyze.capture.child import main as explained

        return explained(folder)

    live(main, Path(request["folder"]))


def live(main: Callable[[Path], int], folder: Path) -> NoReturn:
    """The life of a forked child, in a session of its own: `main` says its exit status."""
    status = 1
    try:
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        with contextlib.suppress(OSError):  # Where memory runs out, this one has to go before the server.
            Path("/proc/self/oom_score_adj").write_text("1000")
        status = main(folder)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _load_prctl() -> Callable[[int, int], Any] | None:
    """Linux's prctl, found before the fork: children end with the server even where nobody is left to kill them."""
    if not sys.platform.startswith("linux"):
        return None
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        return ctypes.CDLL(None).prctl
    return None


def _ended(pid: int, clear: Callable[[], None]) -> tuple[int, int] | None:
    """Wait status and peak memory of a child that has ended, once `clear` has ended what is left of it.

    Until it is waited for, its id and its group are still its own.
    """
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        found, status, usage = os.wait4(pid, os.WNOHANG)
        return (status, usage.ru_maxrss * _KIBIBYTE) if found else None
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        return None
    clear()
    _, status, usage = os.wait4(pid, 0)
    return status, usage.ru_maxrss * _KIBIBYTE
