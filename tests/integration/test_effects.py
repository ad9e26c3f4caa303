"""What a program does to the outside happens once: whatever makes calls again refuses it before it happens."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from effects import EFFECTS, HARMLESS
from program import dynalyze

_CONTAINED = Path(__file__).with_name("contained.py")
_NATIVE = {"torch.jit.save", "a tensor in a shared file", "sqlite attaches"}
"""No event of Python's tells of these: the kernel refuses them, and what they raise says so."""

_SILENT = {"libc"}
"""The kernel refuses it, and the program does not look at what came of it."""


class Server:
    """Counts what reaches a port of this machine, by TCP and by UDP."""

    def __init__(self) -> None:
        self.count = 0
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        for serve in (self._serve_tcp, self._serve_udp):
            threading.Thread(target=serve, daemon=True).start()

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            self.count += 1
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    def _serve_udp(self) -> None:
        while True:
            try:
                self._udp.recv(4096)
            except OSError:
                return
            self.count += 1

    def close(self) -> None:
        for each in (self._tcp, self._udp):
            each.close()


@contextmanager
def counting() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


def tree_of(folder: Path) -> dict[str, str]:
    """Everything below a folder that can be seen to change: modes, owners, times, contents and links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        known = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        when = known.st_mtime_ns if path.is_file() else 0
        found[str(path.relative_to(folder))] = f"{known.st_mode:o} {known.st_uid} {when} {content}"
    return found


def tried(tmp_path: Path, sources: dict[str, str], port: int) -> dict[str, tuple[str | None, str]]:
    """What became of each in one contained process: the effect that was refused, and what was raised else."""
    work, run = tmp_path / "work", tmp_path / "run"
    for folder in (work / "empty", work / "full"):
        folder.mkdir(parents=True)
    run.mkdir()
    (work / "full" / "a").write_text("a")
    (work / "kept.txt").write_text("kept")
    (work / "this_is_imported.py").write_text("VALUE = 1\n")
    (run / "asked.json").write_text(json.dumps({"port": port, "sources": sources}))
    environment = {**os.environ, "PYTHONPATH": f"{work}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    before = tree_of(work)
    ended = subprocess.run(
        [sys.executable, str(_CONTAINED), str(run)], cwd=work, env=environment, capture_output=True, text=True
    )
    assert tree_of(work) == before
    lines = (run / "out.json").read_text().splitlines()
    assert len(lines) == len(sources), ended.stderr
    return {name: (effect, said) for name, effect, said in map(json.loads, lines)}


def test_seventy_ways_to_the_outside_are_refused_before_they_happen_and_nothing_else_is(tmp_path: Path) -> None:
    signals: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    try:
        with counting() as server:
            found = tried(tmp_path, HARMLESS | EFFECTS, server.port)
            assert server.count == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not signals
    assert {name: found[name] for name in HARMLESS if found[name] != (None, "")} == {}
    effects = {name: found[name] for name in EFFECTS}
    by_kernel = {name for name, (effect, said) in effects.items() if effect is None and said.startswith("native: ")}
    assert by_kernel == _NATIVE
    assert {name for name, (effect, said) in effects.items() if effect is None} == _NATIVE | _SILENT
    assert effects["open to write"][0] == "program.py:1 opens new.txt"
    assert "127.0.0.1" in str(effects["a connection"][0])


PROGRAM = """
import os, sqlite3, sys, urllib.request
import torch

def note(y):
    db = sqlite3.connect("orders.db")
    db.execute("create table if not exists t (a)")
    db.execute("insert into t values (1)")
    db.commit()
    db.close()
    os.write(FD, b"call\\n")
    fd = os.open("raw.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"call\\n")
    os.close(fd)
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/charge").read()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.lin(x)
        torch._dynamo.graph_break()
        note(y)
        return y * 2

FD = os.open("held.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
torch.manual_seed(0)
model = COMPILED
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2, 4))
"""

COMMANDS = {
    "explain": [],
    "fix": ["--no-bench"],
    "bench": ["--seconds", "1", "--pairs", "5"],
    "audit": ["--bench-seconds", "60"],
    "plan": ["--bench-seconds", "10"],
    "cache": [],
    "verify": ["--no-bench"],
    "upgrade": ["--no-bench", "--to", sys.executable],
}


@pytest.mark.parametrize("compiled", ['torch.compile(Net(), backend="eager")', "Net()"], ids=["compiled", "in place"])
@pytest.mark.parametrize(
    "command", [each if each in ("explain", "fix") else pytest.param(each, marks=pytest.mark.slow) for each in COMMANDS]
)
def test_the_outside_sees_the_runs_of_the_program_alone(command: str, compiled: str, tmp_path: Path) -> None:
    source = PROGRAM.replace("COMPILED", compiled)
    (tmp_path / "m.py").write_text(source)
    (tmp_path / "after.py").write_text(source.replace("        torch._dynamo.graph_break()\n", ""))
    with counting() as server:
        target = ["m.py", *(["after.py"] if command == "verify" else [])]
        given = (command, *target, *COMMANDS[command], "--", str(server.port))
        ended = dynalyze(*given, cwd=tmp_path, bench=True, seconds=600)
        # 3: run again in a sandbox, the program finds no server, and fails. A plan has no call that it may measure.
        statuses = {"cache": (0, 1, 3), "upgrade": (0, 1, 3), "plan": (4,)}
        assert ended.status in statuses.get(command, (0, 1)), ended.stderr[-3000:]
        # The requests, and the lines written by descriptor, as python itself makes them: one a call.
        assert server.count == 3
    rows = sqlite3.connect(tmp_path / "orders.db").execute("select count(*) from t").fetchone()[0]
    assert (rows, *(len((tmp_path / name).read_text().splitlines()) for name in ("raw.log", "held.log"))) == (3, 3, 3)
    if command in ("explain", "fix") and "compile" in compiled:
        said = " ".join(ended.stdout.split())
        assert "`note` (m.py:6) opens orders.db; `--allow-effects` repeats that" in said


ASKING = """
import socket, sys, threading
import torch

def ask():
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1]) if sys.argv[1:] else 9), 1).close()
    except OSError:
        pass

ask()
threading.Thread(target=ask).start()

class Layer(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x)

    def __setstate__(self, state):
        super().__setstate__(state)
"""
ASKED = """
import sys
import torch

sys.path.insert(0, "site-packages")
import asking

net = torch.compile(asking.Layer(4, 4), backend="eager")
for _ in range(3):
    net(torch.ones(2, 4))
"""


@pytest.mark.parametrize("asks", ["", "return super().forward", "super().__setstate__"])
def test_a_package_that_asks_the_network_at_its_import_finds_none_and_calls_that_ask_are_refused(
    asks: str, tmp_path: Path
) -> None:
    """As many packages look for their newest version. What reads a model back is no import either."""
    (tmp_path / "site-packages").mkdir()
    package = ASKING.replace(f"        {asks}", f"        ask()\n        {asks}") if asks else ASKING
    (tmp_path / "site-packages" / "asking.py").write_text(package)
    (tmp_path / "m.py").write_text(ASKED)
    with counting() as server:
        given = ("bench", "m.py", "--json", "r.json", "--seconds", "0.2", "--pairs", "3", "--", str(server.port))
        ended = dynalyze(*given, cwd=tmp_path, bench=True, seconds=600)
        assert ended.status in (0, 1), ended.stderr[-3000:]
        assert server.count == 2 + 3 * ("forward" in asks)
    measured = json.loads((tmp_path / "r.json").read_text())["measurements"]
    reasons = [each["reason"] for each in measured]
    assert all("connects to" in each for each in reasons) if asks else not any(reasons)
