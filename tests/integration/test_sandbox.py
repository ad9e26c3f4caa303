"""A command in the sandbox: it writes where it likes, and nothing of it is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.sandbox import Again, Sandbox, how_to_run_again, left_behind, why_no_sandbox
from dynalyze.report import Location, OutsideEffect
from dynalyze.text.errors import UsageError

needs_sandbox = pytest.mark.skipif(bool(why_no_sandbox()), reason=f"no sandbox here: {why_no_sandbox()}")

PROGRAM = """
import os, pathlib, socket, subprocess, sys
here = pathlib.Path.cwd()
(here / "made.txt").write_text("made")
(here / "kept.txt").write_text("other")
os.remove("gone.txt")
pathlib.Path.home().joinpath("dynalyze-test-home").write_text("x")
pathlib.Path("/tmp/dynalyze-test-tmp").write_text("x")
subprocess.run(["touch", "by_a_child.txt"], check=True)
pathlib.Path(sys.argv[1]).write_text("kept")
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname())
found = []
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2)
        found.append(port)
    except OSError:
        pass
for path in ("/dynalyze-test-root", "/proc/sys/vm/swappiness"):
    try:
        open(path, "w")
        found.append(path)
    except OSError:
        pass
alone = sum(name.isdigit() for name in os.listdir("/proc")) < 6
print(found, (here / "put.txt").read_text(), (here / "taken.txt").exists(), alone)
sys.exit(7)
"""


@needs_sandbox
def test_nothing_of_a_command_is_there_afterwards(tmp_path: Path) -> None:
    work, new = tmp_path / "work", tmp_path / "new.txt"
    work.mkdir()
    for name in ("kept.txt", "gone.txt", "taken.txt"):
        (work / name).write_text("as it was")
    new.write_text("put there")
    import socket

    with TemporaryFolder() as run, socket.create_server(("127.0.0.1", 0)) as server:
        sandbox = Sandbox(put={str(work / "put.txt"): str(new), str(work / "taken.txt"): ""})
        kept, port = run / "kept", server.getsockname()[1]
        command = sandbox.command([sys.executable, "-c", PROGRAM, str(kept), str(port)], run, str(work))
        ended = subprocess.run(command, capture_output=True, text=True)
        left = left_behind(run)
        assert (ended.returncode, ended.stdout.strip()) == (7, "[] put there False True"), ended.stderr
        assert kept.read_text() == "kept"
    assert {path.name: path.read_text() for path in work.iterdir()} == dict.fromkeys(
        ("kept.txt", "gone.txt", "taken.txt"), "as it was"
    )
    assert not (Path.home() / "dynalyze-test-home").exists() and not Path("/tmp/dynalyze-test-tmp").exists()
    names = {Path(path).name: state for path, state in left.items()}
    assert names["gone.txt"] == "removed" and names["by_a_child.txt"].startswith("100644 ")
    assert {"made.txt", "kept.txt", "dynalyze-test-home", "dynalyze-test-tmp"} <= names.keys()


@needs_sandbox
def test_a_signal_ends_it_and_all_that_it_started(tmp_path: Path) -> None:
    with TemporaryFolder() as run:
        source = "import subprocess, sys; subprocess.Popen(['sleep', '61']); print('on', flush=True); sys.stdin.read()"
        command = Sandbox().command([sys.executable, "-c", source], run)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"on\n"
            process.terminate()
            assert process.wait(20) == 128 + 15
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _cmdline(path) == b"sleep\x0061\x00"]
    assert not running


def _cmdline(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_how_a_program_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = [OutsideEffect("opens", "rows.db", Location("/work/m.py", 6, function="note"))]
    for why_not in ("", "no namespaces"):
        monkeypatch.setattr("dynalyze.launch.sandbox.why_no_sandbox", lambda why_not=why_not: why_not)
        assert how_to_run_again(effects, "auto", allow_effects=True) == Again()
        off = how_to_run_again(effects, "off", allow_effects=False)
        assert off.reason.startswith("`note` (m.py:6) opens rows.db, so the program is not run again")
        assert how_to_run_again([], "off", allow_effects=False) == Again("refuse")
        if why_not:
            assert how_to_run_again(effects, "auto", allow_effects=False).reason
            with pytest.raises(UsageError, match="--sandbox on: no sandbox here: no namespaces"):
                how_to_run_again([], "on", allow_effects=False)
        else:
            assert how_to_run_again(effects, "auto", allow_effects=False) == Again("sandbox")
            assert how_to_run_again(effects, "on", allow_effects=True) == Again("sandbox")
