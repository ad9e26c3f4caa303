"""A Ray cluster of one node for a test: on a free port of the loopback, with a token and files of its own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from limits import WALL_SECONDS


@dataclass(frozen=True)
class Head:
    """`env` is what a driver needs to be let in."""

    address: str
    client: str
    env: dict[str, str]


@contextmanager
def head(cores: int, env: Mapping[str, str]) -> Iterator[Head]:
    """`ray start --head` with `env` beside our variables; all that it started has ended afterwards."""
    port, client_port = _free_port(), _free_port()
    env = {
        **env,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    # The sockets of Ray lie deep in it, and a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="dyn-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        command = [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}",
            "--node-ip-address=127.0.0.1", f"--num-cpus={cores}", "--include-dashboard=false",
            f"--ray-client-server-port={client_port}", f"--temp-dir={folder}", "--object-store-memory=100000000",
        ]  # fmt: skip
        log = Path(folder, "start.log")
        with log.open("wb") as output, subprocess.Popen(
            command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                _wait_for(process, log)
                yield Head(f"127.0.0.1:{port}", f"ray://127.0.0.1:{client_port}", env)
            finally:
                _end(process)


def session_of(leader: int) -> list[int]:
    """All processes of a session: a driver, and the Ray that it started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(process.name))
    return found


def alive(pid: int) -> bool:
    """A zombie is dead: who has to reap it is not ours."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pids: list[int], seconds: float = 30.0) -> bool:
    """Whether all of them have ended before the time is up."""
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def titled(title: str) -> list[int]:
    """The Ray workers that run the task of this name."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(title.encode()):
            found.append(int(process.name))
    return found


def rows_of(folder: Path) -> list[dict[str, object]]:
    """Every line of a sweep's JSONL; a line that is not whole yet is none."""
    file = folder / "rows.jsonl"
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + WALL_SECONDS
    while "runtime started" not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill its session: Ray's own stop waits long, and looks for processes by their names."""
    for pid in [process.pid, *session_of(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
