"""Real targets: what they get, what we show of them, how they are said to have ended."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dynalyze.facts.build import Ended
from dynalyze.launch.run import run
from dynalyze.launch.streams import Streams
from dynalyze.text.errors import UsageError
from limits import WALL_SECONDS


class Target:
    """Runs Python code as a target; what it wrote is in `output`."""

    def __init__(self, folder: Path) -> None:
        self._buffer = io.BytesIO()
        self.streams = Streams("model.py", stream=io.TextIOWrapper(self._buffer, encoding="utf-8"))
        self.folder = folder

    def run(
        self,
        code: str,
        *,
        timeout: float = WALL_SECONDS,
        watch: Callable[[], bool] = lambda: False,
        grace: float = 10.0,
        env: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> Ended:
        command = [sys.executable, "-S", "-c", code, *arguments]
        environment = dict(os.environ) if env is None else env
        return run(command, environment, timeout=timeout, streams=self.streams, watch=watch, grace=grace)

    @property
    def output(self) -> bytes:
        return self._buffer.getvalue()


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.mark.parametrize(
    ("code", "exit_status"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise ValueError", 1),
        ("import os; os._exit(255)", 255),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    ],
)
def test_the_exit_status_is_the_targets_own(target: Target, code: str, exit_status: int) -> None:
    ending = target.run(code)
    assert (ending.reason, ending.exit_status) == ("ended", exit_status)


def test_a_flood_comes_through_byte_for_byte_and_the_watch_goes_on(target: Target) -> None:
    calls: list[float] = []

    def watch() -> bool:
        calls.append(time.monotonic())
        return False

    ending = target.run(
        "import hashlib, os, random, sys, time\n"
        "sent = hashlib.sha256()\n"
        "for _ in range(50):\n"
        "    data = os.urandom(1 << 20)\n"
        "    sent.update(data)\n"
        "    sys.stdout.buffer.write(data)\n"
        "    time.sleep(0.02)\n"
        "sys.stdout.flush()\n"
        "open(sys.argv[1], 'w').write(sent.hexdigest())\n",
        watch=watch,
        arguments=(str(target.folder / "sent"),),
    )
    assert ending.exit_status == 0
    assert len(target.output) == 50 << 20
    assert hashlib.sha256(target.output).hexdigest() == (target.folder / "sent").read_text()
    assert len(calls) >= ending.seconds  # five a second; one a second is asked for


def test_a_flood_does_not_hold_up_the_time_limit(target: Target) -> None:
    ending = target.run("import os\nwhile True: os.write(2, b'more ' * 10000)", timeout=0.7, watch=lambda: False)
    assert (ending.reason, ending.exit_status) == ("timed_out", None)
    assert ending.seconds < WALL_SECONDS / 2


def test_the_target_reads_our_standard_input(target: Target) -> None:
    reader, writer = os.pipe()
    saved = os.dup(0)
    try:
        os.dup2(reader, 0)
        os.write(writer, b"typed")
        os.close(writer)
        target.run("import sys; print(sys.stdin.read().upper())")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)
    assert target.output == b"TYPED\n"


def test_the_target_gets_what_a_shell_opened_for_it(target: Target) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    os.write(writer, b"from <(command)")
    os.close(writer)
    ending = target.run("import sys; print(open(sys.argv[1]).read())", arguments=(f"/dev/fd/{reader}",))
    os.close(reader)
    assert (ending.exit_status, target.output) == (0, b"from <(command)\n")


def test_the_target_holds_nothing_of_ours(target: Target) -> None:
    code = "import os; print(len(os.listdir('/dev/fd')))"
    plain = subprocess.run([sys.executable, "-S", "-c", code], close_fds=False, stdout=subprocess.PIPE)
    target.run(code)
    assert target.output == plain.stdout


def test_the_environment_is_the_given_one(target: Target) -> None:
    environment = {"PATH": os.environ["PATH"], "ONLY": "this\udcff"}
    target.run("import os; print(ascii(os.environ['ONLY']), 'HOME' in os.environ)", env=environment)
    assert target.output == b"'this\\udcff' False\n"


def test_a_program_may_lead_its_own_process_group(target: Target) -> None:
    assert target.run("import os; os.setpgrp(); os.killpg(0, 15)").exit_status == -signal.SIGTERM


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/no/such/python", "model.py"], "/no/such/python: No such file or directory"),
        (["/dev/null"], "/dev/null: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_one_clear_line(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(argv, {}, timeout=WALL_SECONDS, streams=Streams("m"))
    assert str(caught.value) == message.replace(": ", " cannot be started: ")


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


def test_nothing_stays_open_after_a_run(target: Target) -> None:
    before = open_descriptors()
    target.run("pass")
    with pytest.raises(UsageError):
        run(["/no/such"], {}, timeout=1, streams=target.streams)
    assert open_descriptors() == before


def test_the_watch_has_the_target_killed(target: Target) -> None:
    calls: list[bool] = []

    def watch() -> bool:
        calls.append(True)
        return len(calls) > 1

    ending = target.run("import time; time.sleep(600)", watch=watch)
    assert (ending.reason, ending.exit_status) == ("stopped_early", None)
    assert ending.seconds < WALL_SECONDS / 2


def test_a_watch_that_fails_ends_the_target(target: Target, tmp_path: Path) -> None:
    def watch() -> bool:
        if (tmp_path / "pid").is_symlink():
            raise ZeroDivisionError
        return False

    with pytest.raises(ZeroDivisionError):
        target.run(
            "import os, sys, time\n"
            "os.symlink(str(os.getpid()), sys.argv[1])\n"  # there at once, and whole
            "time.sleep(600)",
            watch=watch,
            arguments=(str(tmp_path / "pid"),),
        )
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").readlink().name), 0)
