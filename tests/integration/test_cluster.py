"""`dynalyze sweep --cluster` on real Ray clusters of this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, Outcome, dynalyze
from ray_cluster import Head, gone, head, rows_of, session_of, titled
from warm_starts import forking

from limits import WALL_SECONDS

pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")

# What two runs of one item cannot have in common.
_OWN = ("seconds", "node", "peak_memory")
_CLEAN = """
import torch
from neighbour import WIDTH
model = torch.nn.Linear(WIDTH, WIDTH)
example_inputs = (torch.randn(2, WIDTH),)
"""
_BROKEN = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        print("a break")
        return x + 1

model, example_inputs = Net(), (torch.randn(2, 4),)
"""
_FAILING = 'raise ValueError("no model today")\n'
# Tells its processes, one of them in a session of its own, and waits for the file `go`.
_PATIENT = """
import os, pathlib, subprocess, sys, time
here = pathlib.Path(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
(here / f"pids-{os.getpid()}").write_text(f"{os.getpid()} {child.pid}")
while not (here / "go").exists():
    time.sleep(0.05)
"""
# Kills the process that runs it, which is its supervisor's parent: once, or each time.
_KILLER = """
import os, pathlib, signal, sys
def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
marker = pathlib.Path(sys.argv[1], "killed-" + pathlib.Path(__file__).stem)
if ALWAYS or not marker.exists():
    marker.touch()
    os.kill(parent(os.getppid()), signal.SIGKILL)
    signal.pause()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Head]:
    with head(cores=2, env=forking({})[1]) as started:
        yield started


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, text in (("clean", _CLEAN), ("broken", _BROKEN), ("failing", _FAILING), ("neighbour", "WIDTH = 4\n")):
        (folder / f"{name}.py").write_text(text)
    (folder / "patient.py").write_text(_PATIENT)
    (folder / "once.py").write_text("ALWAYS = False\n" + _KILLER)
    (folder / "always.py").write_text("ALWAYS = True\n" + _KILLER)
    return folder


def comparable(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows by their key, each exactly once."""
    table = {row["key"]: {name: value for name, value in row.items() if name not in _OWN} for row in rows}
    assert len(table) == len(rows)
    return table


def start(cwd: Path, env: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dynalyze", "sweep", *arguments], cwd=cwd, env={**os.environ, **env}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def pids_of(folder: Path, process: subprocess.Popen[str]) -> list[int]:
    """Those that patient.py told."""
    deadline = time.monotonic() + WALL_SECONDS
    while not (told := [file.read_text().split() for file in folder.glob("pids-*")]) or not all(told):
        assert process.poll() is None and time.monotonic() < deadline, "patient.py never started"
        time.sleep(0.05)
    return [int(pid) for pids in told for pid in pids]


def wait_until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + WALL_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.slow
def test_the_table_is_that_of_the_local_pool(cluster: Head, models: Path, tmp_path: Path) -> None:
    targets = ("models/clean.py", "models/broken.py", "models/failing.py", "--python", forking({})[0])
    local = dynalyze("sweep", *targets, "--out", "local", "--quiet-target", cwd=tmp_path)
    far = dynalyze(
        "sweep", *targets, "--out", "far", "--cluster", cluster.address, "--json", "-", cwd=tmp_path, env=cluster.env
    )
    assert (local.status, far.status) == (0, 0), far.stderr
    document = json.loads(far.stdout)  # Nothing but it is on standard output.
    assert [row["status"] for row in document["items"]] == ["full_graph", "graph_break", "eager_error"]
    assert comparable(rows_of(tmp_path / "far")) == comparable(rows_of(tmp_path / "local"))  # type: ignore[arg-type]
    assert all(socket.gethostname() in row["node"] and "torch 2" in row["node"] for row in document["items"])
    # The node ran its own copy of the folder; nothing that came back says so.
    for row in document["items"]:
        report, page = ((tmp_path / "far" / row[name]).read_text() for name in ("report", "page"))
        assert "_ray_pkg_" not in report + page
        here = json.loads(report)
        there = json.loads((tmp_path / "local" / row["report"]).read_text())
        assert here["traced_hash"] == there["traced_hash"]
        for each in (*here["graph_breaks"], *there["graph_breaks"]):
            assert each.pop("compile_seconds") > 0
        assert here["graph_breaks"] == there["graph_breaks"]


@pytest.mark.slow
def test_a_ray_worker_that_is_killed_takes_its_item_along_and_it_runs_again(
    cluster: Head, models: Path, tmp_path: Path
) -> None:
    with start(
        tmp_path, cluster.env, "models/patient.py", "--out", "out", "--cluster", cluster.address, "--", str(tmp_path)
    ) as process:
        try:
            pids = pids_of(tmp_path, process)
            (worker,) = titled("ray::models/patient.py")
            (tmp_path / "go").write_text("")  # For the second attempt; the first is killed before it looks.
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            os.kill(worker, signal.SIGKILL)
            assert gone(pids), "an item outlived its Ray worker"
            _, stderr = process.communicate(timeout=WALL_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, stderr
    (row,) = rows_of(tmp_path / "out")
    assert row["attempts"] == 2
    assert row["status"] != "crash"


@pytest.mark.slow
def test_ctrl_c_ends_everything_here_and_there(models: Path, tmp_path: Path) -> None:
    with start(
        tmp_path, {}, "models/failing.py", "models/patient.py", "--out", "out", "--workers", "2", "--cluster", "local",
        "--", str(tmp_path),
    ) as process:  # fmt: skip
        try:
            pids = pids_of(tmp_path, process)
            wait_until(lambda: rows_of(tmp_path / "out"), "failing.py never ended")
            daemons = session_of(process.pid)
            os.killpg(process.pid, signal.SIGINT)  # As a terminal does it: everything in the group gets it.
            _, stderr = process.communicate(timeout=WALL_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 130, stderr
    assert TRACEBACK not in stderr.replace("models/failing.py | " + TRACEBACK, "")
    assert len(daemons) > 3
    assert gone([*pids, *daemons]), "something outlived the sweep"
    assert [row["target"] for row in rows_of(tmp_path / "out")] == ["models/failing.py"]


@pytest.mark.slow
def test_a_sweep_whose_driver_was_killed_goes_on(cluster: Head, models: Path, tmp_path: Path) -> None:
    arguments = (
        "models/failing.py", "models/patient.py", "--out", "out", "--cluster", cluster.address, "--resume",
        "--", str(tmp_path),
    )  # fmt: skip
    with start(tmp_path, cluster.env, *arguments) as process:
        pids = pids_of(tmp_path, process)
        wait_until(lambda: rows_of(tmp_path / "out"), "failing.py never ended")
        process.kill()
    assert gone(pids), "an item outlived the driver"
    before = rows_of(tmp_path / "out")
    (tmp_path / "go").write_text("")
    ended = dynalyze("sweep", *arguments, cwd=tmp_path, env=cluster.env)
    assert ended.status == 0, ended.stderr
    after = rows_of(tmp_path / "out")
    assert after[: len(before)] == before
    assert sorted(str(row["target"]) for row in after) == ["models/failing.py", "models/patient.py"]


def test_an_address_where_nobody_answers(models: Path, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            refused(sweep_on(address, tmp_path), address)
    refused(sweep_on("127.0.0.1", tmp_path), "HOST:PORT")


def test_without_ray(models: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "ray.py").write_text("raise ImportError('no ray here')\n")
    refused(sweep_on("auto", tmp_path, {"PYTHONPATH": str(tmp_path / "hidden")}), 'pip install "dynalyze[ray]"')


def sweep_on(address: str, cwd: Path, env: dict[str, str] | None = None, *options: str) -> Outcome:
    return dynalyze("sweep", "models/failing.py", "--out", "out", "--cluster", address, *options, cwd=cwd, env=env)


def refused(ended: Outcome, part: str) -> None:
    """Exit status 2, and one line that says why."""
    assert ended.status == 2, ended.stderr
    assert ended.stdout == ""
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("dynalyze: 0 of")]
    assert len(lines) == 1, ended.stderr
    assert part in lines[0]


def test_ray_is_imported_where_it_is_asked_for_and_brings_no_torch() -> None:
    code = """
import sys
import dynalyze.cli.sweep, dynalyze.cli.sweeping
assert "ray" not in sys.modules
import dynalyze.sweep.ray.ray_pool
assert "ray" not in sys.modules
import ray
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
