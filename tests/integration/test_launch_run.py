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

from dynalyze.launch.run import Command, Ending, run
from dynalyze.launch.streams import Streams
from dynalyze.text.errors import UsageError
from limits import WALL_SECONDS


class Target:
    """Runs Python code as a target; what it wrote is in `output`."""

    def __init__(self, folder: Path) -> None:
        self._buffer = io.BytesIO()
        self.streams = Streams("model.py", stream=io.TextIOWrapper(self._buffer, encoding="utf-8"))
        self.stop_file = folder / "stop"

    def run(
        self,
        code: str,
        *,
        timeout: float = WALL_SECONDS,
        soft_deadline: float | None = None,
        watch: Callable[[], bool] | None = None,
        grace: float = 10.0,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> Ending:
        command = Command([sys.executable, "-S", "-c", code, *arguments], dict(os.environ) if env is None else env, cwd)
        return run(
            command,
            timeout=timeout,
            streams=self.streams,
            stop_file=self.stop_file,
            soft_deadline=soft_deadline,
            watch=watch,
            grace=grace,
        )

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
    assert not ending.asked_to_stop


def test_seconds_are_the_life_of_the_main_process(target: Target) -> None:
    assert 0.2 <= target.run("import time; time.sleep(0.2)").seconds < WALL_SECONDS / 2


def test_both_streams_are_caught_below_python(target: Target, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    target.run(
        "import os, subprocess, sys\n"
        "os.write(1, b'1')\n"
        "os.write(2, b'2')\n"
        "print(3, end='', flush=True)\n"
        "subprocess.run([sys.executable, '-Sc', 'print(4, end=str())'])\n"
        "os.system('printf 5 >&2')\n"
    )
    assert sorted(target.output) == sorted(b"12345")
    assert capfdbinary.readouterr() == (b"", b"")


def test_the_last_lines_of_a_crash_can_be_quoted(target: Target) -> None:
    target.run("print('fine'); raise RuntimeError('no such kernel')")
    assert target.streams.last_lines()[-1] == "RuntimeError: no such kernel"


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
        arguments=(str(target.stop_file.with_name("sent")),),
    )
    assert ending.exit_status == 0
    assert len(target.output) == 50 << 20
    assert hashlib.sha256(target.output).hexdigest() == target.stop_file.with_name("sent").read_text()
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


def test_environment_and_directory_are_the_given_ones(target: Target, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "ONLY": "this\udcff"}
    target.run("import os; print(os.getcwd(), ascii(os.environ['ONLY']))", cwd=tmp_path, env=environment)
    assert target.output.decode() == f"{tmp_path.resolve()} 'this\\udcff'\n"


def test_signals_have_their_defaults(target: Target) -> None:
    target.run(
        "from signal import *\n"
        "print(getsignal(SIGINT) is default_int_handler, int(getsignal(SIGTERM)), int(getsignal(SIGCHLD)))"
    )
    assert target.output == b"True 0 0\n"


def test_a_program_may_lead_its_own_process_group(target: Target) -> None:
    assert target.run("import os; os.setpgrp(); os.killpg(0, 15)").exit_status == -signal.SIGTERM


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/no/such/python", "model.py"], "/no/such/python: No such file or directory"),
        (["/dev/null"], "/dev/null: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_one_clear_line(tmp_path: Path, argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(Command(argv, {}), timeout=WALL_SECONDS, streams=Streams("m"), stop_file=tmp_path / "stop")
    assert str(caught.value) == message.replace(": ", " cannot be started: ")


def test_a_missing_directory_is_one_clear_line(target: Target, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^.*gone cannot be started: No such file or directory$"):
        target.run("pass", cwd=tmp_path / "gone")


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/dev/fd").iterdir()}


def test_nothing_stays_open_after_a_run(target: Target) -> None:
    before = open_descriptors()
    target.run("pass")
    with pytest.raises(UsageError):
        run(Command(["/no/such"], {}), timeout=1, streams=target.streams, stop_file=target.stop_file)
    assert open_descriptors() == before


def test_the_watch_stops_the_target_softly(target: Target) -> None:
    ending = target.run(
        "import os, sys, time\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
        "print('last words'); sys.exit(5)",
        watch=lambda: True,
        arguments=(str(target.stop_file),),
    )
    assert (ending.reason, ending.exit_status, ending.asked_to_stop) == ("stopped_early", 5, True)
    assert target.output == b"last words\n"


def test_a_target_that_does_not_stop_is_killed_after_the_grace(target: Target) -> None:
    calls: list[bool] = []

    def watch() -> bool:
        calls.append(True)
        return True

    ending = target.run("import time; time.sleep(600)", watch=watch, grace=0.7)
    assert (ending.reason, ending.exit_status) == ("stopped_early", None)
    assert 0.7 <= ending.seconds < WALL_SECONDS / 2
    assert len(calls) > 1  # it draws the progress too, so it is called while we wait


def test_the_soft_deadline_only_asks(target: Target) -> None:
    ending = target.run(
        "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)",
        soft_deadline=0.3,
        grace=0.0,
        arguments=(str(target.stop_file),),
    )
    assert (ending.reason, ending.exit_status, ending.asked_to_stop) == ("ended", 0, True)
    assert ending.seconds >= 0.3


def test_after_the_soft_deadline_comes_the_hard_one(target: Target) -> None:
    ending = target.run("import time; time.sleep(600)", soft_deadline=0.2, timeout=0.8)
    assert (ending.reason, ending.exit_status, ending.asked_to_stop) == ("timed_out", None, True)
    assert 0.8 <= ending.seconds < WALL_SECONDS / 2


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
