"""The function that Ray runs on a node, and the process that it hands items to, which it keeps for the next items.

Only the standard library at the top: it is loaded into Ray's own worker processes. The agent (`PYTHON node.py
DESCRIPTOR`) is no child of the worker: Ray kills the direct children of a worker that it ends, and with them the
supervisors that have to end what an item started. The agent notices the end of its worker by its connection, ends what
runs in good order, and removes the folder that holds all temporary files.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import closing
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

if __name__ == "__main__":  # The package may be on no path here; its own folder is, and hides other modules.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

_LOOK_SECONDS = 0.5
# Which devices a worker may see: Ray sets it anew for each task, and an agent hands it on as it was at its start.
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# What Ray puts into the environment of its workers; items see it without. OMP_NUM_THREADS stays: a task's cores.
_RAY_PREFIX = "RAY_"
_RAY_NAMES = ("PYTHONBREAKPOINT", "SPT_NOENV")
_RAY_FILES = "/runtime_resources/"


class AgentLost(Exception):
    """The agent ended while an item ran."""


class NodeUnusable(Exception):
    """No agent starts here; the message says why."""


def run(parcel: bytes) -> bytes:
    """The delivery for a parcel, both packed: this worker's agent runs the item. Raises AgentLost where the agent died
    or was killed meanwhile, and NodeUnusable where none can start here, whatever the item.
    """
    devices = tuple(os.environ.get(name, "") for name in _DEVICES)
    agent = _agents.get(devices)
    if agent is None:
        for other in _agents.values():
            other.close()
        _agents.clear()
        agent = _agents[devices] = Agent()
    try:
        return agent.ask(parcel)
    except BaseException:  # A cancelled task too: what the agent is at is to end.
        del _agents[devices]
        agent.close()
        raise


class Agent:
    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        with theirs:
            # It returns at once: what goes on is a child of that process.
            command = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno())]
            subprocess.run(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, check=True)
        try:
            problem = self._receive().decode()
        except (EOFError, OSError) as error:
            raise NodeUnusable("the process that runs items ended at its start") from error
        if problem:
            raise NodeUnusable(problem)

    def ask(self, parcel: bytes) -> bytes:
        try:
            self._connection.send_bytes(parcel)
            return self._receive()
        except (EOFError, OSError) as error:
            raise AgentLost("the process that ran it died") from error

    def close(self) -> None:
        self._connection.close()  # The agent ends with it.

    def _receive(self) -> bytes:
        # In short waits: Ray interrupts a worker between two lines of Python, not in a call that blocks.
        while not self._connection.poll(_LOOK_SECONDS):
            continue
        return self._connection.recv_bytes()


_agents: dict[tuple[str, ...], Agent] = {}


def main(descriptor: int) -> None:
    """The agent: leaves its parent, says what it lacks (b"" for nothing), and answers each parcel with a delivery."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.set_inheritable(descriptor, False)
    # Ray's workers and their children have SIGINT blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        from dynalyze.files.temporary import TemporaryFolder
        from dynalyze.sweep.ray import node_work
        from dynalyze.sweep.worker import serve
    except ImportError as error:
        connection.send_bytes(f"{socket.gethostname()}: {error}; install dynalyze there".encode())
        return
    for name in [name for name in os.environ if name.startswith(_RAY_PREFIX) or name in _RAY_NAMES]:
        del os.environ[name]
    paths = [path for path in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if path and _RAY_FILES not in path]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    connection.send_bytes(b"")
    with TemporaryFolder("node") as folder, closing(node_work.NodeWork()) as work:
        tempfile.tempdir = str(folder)
        serve(connection, work.delivery)


if __name__ == "__main__":
    main(int(sys.argv[1]))
