"""The function that Ray runs on a node: it hands an item to an agent process, which it keeps for the next items.

Only the standard library: it is loaded into Ray's own worker processes. The agent (`agent.py`) is no child of the
worker: Ray kills the direct children of a worker that it ends, and with them the supervisors that have to end what an
item started. The agent notices the end of its worker by its connection, and ends everything in good order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.connection import Pipe
from pathlib import Path

_AGENT = Path(__file__).resolve().with_name("agent.py")
_LOOK_SECONDS = 0.5
# Which devices a worker may see: Ray sets it anew for each task, and an agent hands it on as it was at its start.
_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class AgentLost(Exception):
    """The agent ended while an item ran, of itself or of what the item did."""


class NodeUnusable(Exception):
    """No agent starts here; the message says why."""


def run(parcel: bytes) -> bytes:
    """Have the item in a parcel run by this worker's agent; returns a packed delivery. Raises AgentLost where the agent
    died of this item, or was killed, and NodeUnusable where none can start here, whatever the item.
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
    """Our end of an agent process."""

    def __init__(self) -> None:
        self._connection, theirs = Pipe()
        try:
            # It returns at once: what goes on is a child of that process.
            subprocess.run(
                [sys.executable, str(_AGENT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, check=True,
            )  # fmt: skip
        finally:
            theirs.close()
        try:
            problem = self._receive().decode()
        except (EOFError, OSError) as error:
            raise NodeUnusable("the process that runs items ended at its start") from error
        if problem:
            raise NodeUnusable(problem)

    def ask(self, parcel: bytes) -> bytes:
        """Send an item and wait for what comes back."""
        try:
            self._connection.send_bytes(parcel)
            return self._receive()
        except (EOFError, OSError) as error:
            raise AgentLost("the process that ran it died") from error

    def close(self) -> None:
        """The agent takes it as its end."""
        self._connection.close()

    def _receive(self) -> bytes:
        # In short waits: Ray interrupts a worker between two lines of Python, not in a call that blocks.
        while not self._connection.poll(_LOOK_SECONDS):
            continue
        return self._connection.recv_bytes()


_agents: dict[tuple[str, ...], Agent] = {}
