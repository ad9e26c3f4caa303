"""The process of ours on a node of a cluster: `PYTHON agent.py DESCRIPTOR`, which leaves its parent at once.

It answers each packed parcel of its connection with a packed delivery. The end of the connection is its own end: what
runs is ended first, by its supervisor, and the folder that holds all temporary files is removed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

if __name__ == "__main__":  # The package may be on no path here; its own folder is, and hides other modules.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

# What Ray puts into the environment of its workers; items see it without. OMP_NUM_THREADS stays: a task's cores.
_RAY_PREFIX = "RAY_"
_RAY_NAMES = ("PYTHONBREAKPOINT", "SPT_NOENV")
_RAY_FILES = "/runtime_resources/"


def main(descriptor: int) -> None:
    if os.fork():
        os._exit(0)
    os.setsid()
    os.set_inheritable(descriptor, False)
    # Ray's workers and their children have SIGINT blocked.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection: Connection[bytes, bytes] = Connection(descriptor)
    try:
        from dynalyze.sweep.ray import node_work
    except ImportError as error:
        connection.send_bytes(f"{socket.gethostname()}: {error}; install dynalyze there".encode())
        return
    _without_ray()
    connection.send_bytes(b"")
    from dynalyze.files.temporary import TemporaryFolder
    from dynalyze.sweep.worker import serve

    with TemporaryFolder("node") as folder, closing(node_work.NodeWork()) as work:
        tempfile.tempdir = str(folder)
        serve(connection, work.delivery)


def _without_ray() -> None:
    for name in [name for name in os.environ if name.startswith(_RAY_PREFIX) or name in _RAY_NAMES]:
        del os.environ[name]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and _RAY_FILES not in path]
    os.environ.pop("PYTHONPATH", None)
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)


if __name__ == "__main__":
    main(int(sys.argv[1]))
