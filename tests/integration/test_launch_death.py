"""Whatever the target started ends with it, however it or we ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

import dynalyze
from dynalyze.facts.build import Ended
from dynalyze.launch import supervised
from dynalyze.launch.run import run
from dynalyze.launch.streams import Streams
from dynalyze.launch.supervisor import parent_of
from limits import WALL_SECONDS

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us adopt orphans")

# Leaves the pids of a child, of one in a session of its own, and of one that lost its parent as daemons do.
FAMILY = """
import os, signal, sys, time

def born(note):
    with open(sys.argv[1], "a") as file:
        file.write(f"{note} {os.getpid()}\\n")

def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(600)

def child():
    born("child")
    stay()

def session():
    os.setsid()
    born("session")
    stay()

def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)
    born("daemon")
    stay()

def family():
    for member in (child, session, daemon):
        if os.fork() == 0:
            member()
    while open(sys.argv[1]).read().count("\\n") < 3:
        time.sleep(0.01)

"""


class Pids:
    """The file in which processes leave their pids."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def read(self) -> dict[str, int]:
        return {name: int(pid) for name, pid in map(str.split, self.path.read_text().splitlines())}

    def wait_for(self, name: str) -> int:
        wait_until(lambda: f"{name} " in self.path.read_text() and self.path.read_text().endswith("\n"))
        return self.read()[name]


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    pids = Pids(tmp_path / "pids")
    yield pids
    for pid in pids.read().values():  # for a test that failed
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float = WALL_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """No such process, or only its entry, which waits for a parent that is not ours to ask."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text() if sys.platform == "linux" else ") running"
    except (ProcessLookupError, FileNotFoundError):
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def run_family(code: str, pids: Pids, tmp_path: Path, *, timeout: float = 60.0) -> Ended:
    argv = [sys.executable, "-S", "-c", FAMILY + code, str(pids.path)]
    streams = Streams("model.py", quiet=True)
    return run(argv, dict(os.environ), timeout=timeout, streams=streams)


@linux_only
@pytest.mark.parametrize(
    ("end", "exit_status"),
    [("pass", 0), ("os._exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
)
def test_nothing_survives_the_targets_own_end(pids: Pids, tmp_path: Path, end: str, exit_status: int) -> None:
    # All of them hold our pipes open, too: that must not keep us.
    ending = run_family(f"family()\n{end}", pids, tmp_path)
    assert (ending.reason, ending.exit_status) == ("ended", exit_status)
    assert len(pids.read()) == 3
    assert all(is_gone(pid) for pid in pids.read().values())


@linux_only
def test_nothing_survives_the_time_limit(pids: Pids, tmp_path: Path) -> None:
    ending = run_family("born('main'); family(); stay()", pids, tmp_path, timeout=1.5)
    assert (ending.reason, ending.exit_status) == ("timed_out", None)
    assert len(pids.read()) == 4
    assert all(is_gone(pid) for pid in pids.read().values())


@linux_only
def test_a_target_that_kills_its_supervisor_dies_with_it(pids: Pids, tmp_path: Path) -> None:
    ending = run_family("born('main'); os.kill(os.getppid(), signal.SIGKILL); stay()", pids, tmp_path)
    assert (ending.reason, ending.exit_status) == ("ended", -signal.SIGKILL)
    wait_until(lambda: is_gone(pids.read()["main"]))


def test_descendants_that_end_by_themselves_are_given_the_time(pids: Pids, tmp_path: Path) -> None:
    code = "if os.fork() == 0: time.sleep(0.1); born('finished')"
    assert run_family(code, pids, tmp_path).exit_status == 0
    assert list(pids.read()) == ["finished"]


def test_where_nothing_can_be_adopted_the_process_group_is_killed(
    pids: Pids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "without_ctypes.py"
    script.write_text(
        "import runpy, sys\n"
        "sys.modules['ctypes'] = None\n"
        f"runpy.run_path({str(supervised.SUPERVISOR)!r}, run_name='__main__')\n"
    )
    monkeypatch.setattr(supervised, "SUPERVISOR", script)
    ending = run_family("family(); sys.exit(4)", pids, tmp_path)
    found = pids.read()
    assert (ending.reason, ending.exit_status) == ("ended", 4)
    wait_until(lambda: is_gone(found["child"]))
    assert not is_gone(found["session"])  # as documented; the fixture ends them
    assert not is_gone(found["daemon"])


def test_strangers_are_left_alone(pids: Pids, tmp_path: Path) -> None:
    """A process of ours that has nothing to do with the target."""
    with subprocess.Popen([sys.executable, "-Sc", "input()"], stdin=subprocess.PIPE) as stranger:
        run_family("family()", pids, tmp_path)
        assert stranger.poll() is None
        stranger.communicate(b"\n")
    assert stranger.returncode == 0


# --- dynalyze itself as a process of its own -------------------------------------------------------------

HOST = """
import os, pathlib, signal, sys
from dynalyze.launch.run import run
from dynalyze.launch.streams import Streams

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests with "&"
if "TERMINAL" in os.environ:
    os.dup2(os.open(os.environ["TERMINAL"], os.O_RDWR), 0)  # a new session makes it its own
folder = pathlib.Path(sys.argv[1])
argv = [sys.executable, "-S", "-c", sys.argv[2], str(folder / "pids")]
ending = run(
    argv, dict(os.environ), timeout=60, streams=Streams("model.py"), grace=float(sys.argv[3]),
)
print(ending.reason, ending.exit_status, flush=True)
"""

STUBBORN = """
born("main")
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        born("interrupted")
"""


class Host:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        code: str,
        *,
        grace: float = 30.0,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        terminal: str | None = None,
    ) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": str(Path(dynalyze.__file__).parents[1]), "TERM": "xterm"}
        if terminal is not None:
            environment["TERMINAL"] = terminal
        argv = [sys.executable, "-c", HOST, str(self._folder), FAMILY + textwrap.dedent(code), str(grace)]
        self.process = subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
        )
        return self.process

    def said(self) -> str:
        assert self.process is not None
        return self.process.communicate(timeout=WALL_SECONDS)[0].decode().strip()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    if host.process is not None:
        host.process.kill()
        host.process.communicate()


@linux_only
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_our_own_death(pids: Pids, host: Host, number: signal.Signals) -> None:
    process = host.start("family(); born('main'); stay()")
    pids.wait_for("main")
    process.send_signal(number)
    process.wait()
    wait_until(lambda: all(is_gone(pid) for pid in pids.read().values()))
    assert len(pids.read()) == 4


@linux_only
def test_the_target_dies_with_its_supervisor_though_nobody_looks_after_it(pids: Pids, host: Host) -> None:
    process = host.start("born('main'); stay()")
    main = pids.wait_for("main")
    process.send_signal(signal.SIGSTOP)
    os.kill(parent_of(str(main)), signal.SIGKILL)
    wait_until(lambda: is_gone(main))


def test_ctrl_c_lets_the_target_finish(pids: Pids, host: Host) -> None:
    process = host.start("""
        try:
            born('main')
            time.sleep(600)
        finally:
            born('finally')
    """)
    pids.wait_for("main")
    time.sleep(0.1)  # into the sleep
    process.send_signal(signal.SIGINT)
    assert host.said() == f"interrupted {-signal.SIGINT}"
    assert "finally" in pids.read()


def test_a_target_that_does_not_listen_to_ctrl_c_is_killed_after_the_grace(pids: Pids, host: Host) -> None:
    process = host.start(STUBBORN, grace=0.8)
    main = pids.wait_for("main")
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert host.said() == "interrupted None"
    assert "interrupted" in pids.read()
    assert is_gone(main)


def test_a_second_ctrl_c_kills_at_once(pids: Pids, host: Host) -> None:
    process = host.start(STUBBORN, grace=600)
    pids.wait_for("main")
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    pids.wait_for("interrupted")
    time.sleep(0.6)  # two signals within half a second are one press
    process.send_signal(signal.SIGINT)
    assert host.said() == "interrupted None"


def read_screen(screen: int) -> bytes:
    try:
        return os.read(screen, 4096)
    except OSError:  # Linux's way to say that the other end is closed
        return b""


def test_a_terminal_shows_whose_lines_they_are_and_standard_output_stays_ours(host: Host) -> None:
    screen, end = os.openpty()
    process = host.start("os.write(1, b'to stdout\\n'); os.write(2, b'no end')", stderr=end)
    os.close(end)
    assert host.said() == "ended 0"
    assert process.returncode == 0
    shown = b"".join(iter(lambda: read_screen(screen), b""))
    os.close(screen)
    assert sorted(shown.split(b"\r\n")) == [b"", b"model.py | no end", b"model.py | to stdout"]


@linux_only
def test_the_target_reads_from_the_terminal_and_ctrl_c_typed_there_reaches_it_through_us(
    pids: Pids, host: Host
) -> None:
    keyboard, end = os.openpty()
    host.start(
        """
        try:
            born(input())
            born('child') if os.fork() else stay()
            time.sleep(600)
        except KeyboardInterrupt:
            born('interrupted')
            sys.exit(9)
        """,
        terminal=os.ttyname(end),
    )
    os.write(keyboard, b"typed\n")
    pids.wait_for("typed")
    pids.wait_for("child")
    time.sleep(0.1)
    os.write(keyboard, b"\x03")
    assert host.said() == "interrupted 9"
    os.close(end)
    os.close(keyboard)
    assert "interrupted" in pids.read()
