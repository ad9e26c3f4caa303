"""The fork server: what it may not do before it forks, and what it does to those that hang, swell or are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Client
from pathlib import Path

import pytest
from warm_starts import start_by_forks

from dynalyze.capture import process_tree
from dynalyze.launch.forkserver import ForkServer, ServerLost, run_forked
from limits import WALL_SECONDS

# Prepares as the server does, with every dispatch of ATen counted from the moment when torch can count.
_COUNTING = """
import json, os, sys
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

seen = []

class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))

sys.path.insert(0, PACKAGES)
from dynalyze.capture.forkserver import prepare
with Dispatches():
    prepare(["inductor", "hf"])
    before = list(seen)
    torch.zeros(2) + 1  # the counter does count
threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
print(json.dumps({"before": before, "after": len(seen), "threads": threads}))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    with closing(ForkServer(sys.executable, environment, ["serve"])) as running:
        yield running


def _request(folder: Path, program: str) -> Path:
    """A run folder that asks for a program, as the child of explain would get it."""
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    request = {
        "mode": "script", "spec": str(script), "path": str(script), "module": None, "name": None, "arguments": [],
        "inputs": [], "compile": {"backend": "eager"}, "bundle": False, "in_place": False,
    }  # fmt: skip
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_no_tensor_operation_runs_before_the_fork() -> None:
    packages = str(Path(__file__).resolve().parents[2] / "analyzer")
    program = _COUNTING.replace("PACKAGES", repr(packages))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=WALL_SECONDS
    )
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["before"] == []
    assert told["after"] > 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="counts threads in /proc")
def test_the_server_has_one_thread(server: ForkServer) -> None:
    """torch starts its pool of threads with the first operation that uses it; threads do not survive a fork."""
    seen = process_tree.processes()
    below = process_tree.below(os.getpid(), seen)
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below if pid != os.getpid()}
    serving = [pid for pid, command in commands.items() if b"start.py\0serve" in command and b"-S" not in command]
    assert len(serving) == 1
    assert len(list(Path(f"/proc/{serving[0]}/task").iterdir())) == 1


def test_a_child_uses_the_thread_pool(server: ForkServer, tmp_path: Path) -> None:
    """The operation that hangs in a child of a process whose pool had started."""
    program = "import torch\na = torch.randn(600, 600)\nprint((a @ a).shape, torch.get_num_threads())\n"
    answer = run_forked(server.address, _request(tmp_path, program), 60, None)
    assert (answer.reason, answer.status) == ("ended", 0)
    assert "torch.Size([600, 600]) 2" in (tmp_path / "output.txt").read_text(encoding="utf-8")


def test_children_do_not_see_each_other(server: ForkServer, tmp_path: Path) -> None:
    """What one sets in torch is unset in the next."""
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        program = "import torch\nprint(torch.get_default_dtype())\ntorch.set_default_dtype(torch.float64)\n"
        run_forked(server.address, _request(folder, program), 60, None)
        assert "torch.float32" in (folder / "output.txt").read_text(encoding="utf-8")


def test_a_hang_is_ended_with_all_that_it_started(server: ForkServer, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    program = (
        "import os, subprocess, sys, time\n"
        "sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{sleeper.pid}}')\n"
        "time.sleep(600)\n"
    )
    answer = run_forked(server.address, _request(tmp_path, program), 3, None)
    assert (answer.reason, answer.status) == ("timed_out", -9)
    assert 3 <= answer.seconds < WALL_SECONDS / 2
    _wait_until_gone([int(pid) for pid in pids.read_text(encoding="utf-8").split()])


def test_more_memory_than_the_limit_is_ended(server: ForkServer, tmp_path: Path) -> None:
    program = "import time\nheld = [bytearray(64 << 20) for _ in range(40)]\ntime.sleep(600)\n"
    answer = run_forked(server.address, _request(tmp_path, program), 120, 900 << 20)
    assert (answer.reason, answer.status) == ("memory", -9)


def test_what_a_fork_shares_does_not_count(server: ForkServer, tmp_path: Path) -> None:
    """torch and transformers are a few hundred megabytes of each child, and of all of them together once."""
    answer = run_forked(server.address, _request(tmp_path, "import time\ntime.sleep(2)\n"), 60, 150 << 20)
    assert (answer.reason, answer.status) == ("ended", 0)
    assert answer.maxrss > 150 << 20


def test_a_crash_is_told_by_its_signal(server: ForkServer, tmp_path: Path) -> None:
    answer = run_forked(server.address, _request(tmp_path, "import os\nos.abort()\n"), 60, None)
    assert (answer.reason, answer.status) == ("ended", -6)
    assert server.alive


def test_a_client_that_hangs_up_has_its_item_ended(server: ForkServer, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = f"import os, time\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()) + ' ')\ntime.sleep(600)\n"
    request = {"folder": str(_request(tmp_path, program)), "timeout": 600, "memory": None}
    with Client(server.address, "AF_UNIX") as connection:
        connection.send_bytes(json.dumps(request).encode())
        deadline = time.monotonic() + WALL_SECONDS
        while not (pid_file.exists() and pid_file.read_text(encoding="utf-8").endswith(" ")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    _wait_until_gone([int(pid_file.read_text(encoding="utf-8"))])
    assert server.alive


def test_a_dead_server_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that kills the server, as one may by its parent's process id."""
    start_by_forks(monkeypatch)
    with closing(ForkServer(sys.executable, os.environ, ["serve"])) as own:
        program = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)\n"
        with pytest.raises(ServerLost):
            run_forked(own.address, _request(tmp_path, program), 60, None)
        deadline = time.monotonic() + WALL_SECONDS
        while own.alive:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(ServerLost):
            run_forked(own.address, tmp_path, 60, None)


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + WALL_SECONDS
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < deadline, "it outlived its end"
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
