"""Real jobs under `dynalyze watch`: what is told of them is what happened, and nothing happens to them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from program import plain_python
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from dynalyze.watch.run import attaching_script
from limits import WALL_SECONDS

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
RANKS = """
import json, os, statistics, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
@torch.compile(backend="eager")
def penalty(x, name):
    for _ in range(100):
        x = x.sin() + len(name)
    return x.sum()
took = []
for step in range(240):
    began = time.perf_counter()
    name = {(1, 120): "other", (0, 180): "third"}.get((rank, step), "usual")
    (model(torch.randn(4, 8)).sum() + penalty(torch.randn(4), name)).backward()
    optimizer.step()
    optimizer.zero_grad()
    took.append(time.perf_counter() - began)
    time.sleep(0.002)
usual = statistics.median(took)
more = [max(0.0, each - usual) for each in took]
said = json.dumps({step: [more[step], sum(more[step - 1 : step + 2])] for step in (120, 180)})
os.write(1, f"rank {rank} {said}\\n".encode())  # At once: print writes its parts between those of the other rank.
dist.barrier()
time.sleep(1)
os._exit(0)  # torch's own gloo may wait for ever when it is taken down.
"""
ALONE = """
import os, sys, time
import torch
model = torch.nn.Linear(8, 8)
run = torch.compile(model, backend="aot_eager", dynamic=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(int(sys.argv[1])):
    run(torch.randn(4 if step < int(sys.argv[1]) - 50 else 7, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.005)
print("finished", flush=True)
"""


def watch(folder: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dynalyze", "watch", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=WALL_SECONDS, check=False, **more
    )


def told(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.match(r"(rank|all|step)", line)]


def test_ranks_are_told_apart_and_the_wait_is_what_the_other_rank_measured(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(RANKS)
    done = watch(
        tmp_path, "--json", "job.json", "--html", "job.html", "--", *TORCHRUN, "job.py",
        env={**os.environ, "TORCH_LOGS": "recompiles"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "job.json").read_text())
    notices = report["job"]["notices"]
    line = RANKS.splitlines().index("def penalty(x, name):") + 1
    assert [
        (each["kind"], each["ranks"], each["step"], each["location"]["line"], each["expected"], each["actual"])
        for each in notices
    ] == [
        ("recompile", [1], 120, line, "'usual'", "'other'"), ("recompile", [0], 180, line, "'usual'", "'third'"),
    ]  # fmt: skip
    assert len(told(done.stdout)) == 2
    own = {int(rank): json.loads(text) for rank, text in re.findall(r"rank (\d) (\{[^}]*\})", done.stderr)}
    for notice, rank in zip(notices, (0, 1), strict=True):
        # A wait may reach into the next step, so a busy machine's delay there is counted too.
        least, most = own[rank][str(notice["step"])]
        assert 0.8 * least - 0.05 <= notice["waited"][str(rank)] <= 1.2 * most + 0.05
    assert done.stderr.count("[__recompiles] Recompiling function") == len(report["recompiles"]) == 2
    ranks = [(row["rank"], row["steps"], row["counted_by"]) for row in report["job"]["ranks"]]
    assert ranks == [(0, 240, "optimizer"), (1, 240, "optimizer")]
    page = (tmp_path / "job.html").read_text()
    assert 'id="job"' in page and "rank 1, step 120" in page


@pytest.mark.slow
def test_the_job_lives_on_without_its_watcher_and_its_folder_tells_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(ALONE)
    command = [sys.executable, "-m", "dynalyze", "watch", "--folder", "records", "--", "job.py", "400"]
    with (tmp_path / "said").open("wb") as said:
        watcher = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=said)
        wait_for(tmp_path / "records" / "ranks")
        watcher.send_signal(signal.SIGKILL)
        watcher.wait()
        snapshot = subprocess.run(
            [sys.executable, "-m", "dynalyze", "report", "--json", "-", "records"], cwd=tmp_path, capture_output=True,
            text=True, timeout=WALL_SECONDS, check=False,
        )  # fmt: skip
        assert json.loads(snapshot.stdout)["job"]["ranks"][0]["status"] == "running", snapshot.stderr
        done = watch(tmp_path, "--tensorboard", "board", "records")
    assert "finished" in (tmp_path / "said").read_text()
    (line,) = told(done.stdout)
    assert line.startswith("step 350: recompiled") and "4 to 7" in line
    (folder,) = (tmp_path / "board").iterdir()
    curves = EventAccumulator(str(folder)).Reload()
    recompiles = [(each.step, float(tensor_util.make_ndarray(each.tensor_proto))) for each in
                  curves.Tensors("dynalyze/recompiles")]  # fmt: skip
    assert recompiles[-1] == (400, 1.0) and recompiles == sorted(recompiles)


def test_a_rule_ends_the_job_a_notice_reaches_a_command_and_counts_are_served(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(ALONE)
    port = "19467"
    command = [
        sys.executable, "-m", "dynalyze", "watch", "--fail-fast", "recompile", "--alert", "cat >> alerts",
        "--metrics-port", port, "--folder", "records", "--", "job.py", "100000",
    ]  # fmt: skip
    source = ALONE.replace("int(sys.argv[1]) - 50", "400")
    (tmp_path / "job.py").write_text(source)
    watcher = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "records" / "ranks")
    served, deadline = "", time.monotonic() + WALL_SECONDS
    while 'rank=""' not in served and time.monotonic() < deadline:  # Until the watcher has looked at the rank.
        served = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    _, err = watcher.communicate(timeout=WALL_SECONDS)
    assert watcher.returncode == 1, err
    assert "finished" not in err and "--fail-fast recompile: the job was ended" in err
    assert re.search(r'dynalyze_steps_total\{process="[^"]+",rank=""\} \d', served)
    assert json.loads((tmp_path / "alerts").read_text())["step"] == 400


def test_a_program_can_ask_to_be_watched_and_count_its_own_steps(tmp_path: Path) -> None:
    program = "import dynalyze.auto\nimport dynalyze\n" + ALONE.replace("optimizer.step()", "dynalyze.step()")
    (tmp_path / "job.py").write_text(program)
    (tmp_path / "records").mkdir()
    follower = subprocess.Popen(  # It waits for the job to begin.
        [sys.executable, "-m", "dynalyze", "watch", "--json", "job.json", "records"], cwd=tmp_path,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    plain_python("job.py", "120", cwd=tmp_path, env={"DYNALYZE_WATCH": str(tmp_path / "records")})
    out, _ = follower.communicate(timeout=WALL_SECONDS)
    assert told(out)[0].startswith("step 70: recompiled")
    report = json.loads((tmp_path / "job.json").read_text())
    assert [(row["steps"], row["counted_by"]) for row in report["job"]["ranks"]] == [(120, "step")]


def test_a_program_finds_its_own_file_that_is_named_as_a_module_of_the_library_and_may_fail(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("from _queue import *\nQueue = LifoQueue = Full = Empty\nMINE = True\n")
    (tmp_path / "job.py").write_text(
        "import queue, sys\nprint('mine', getattr(queue, 'MINE', False), flush=True)\nsys.exit(5)\n"
    )
    done = watch(tmp_path, "--", "job.py")
    assert done.returncode == 3 and "mine True" in done.stderr
    assert watch(tmp_path, "--", "nothing-like-it").returncode == 2


TRAINING = """
import torch
from torch._dynamo.utils import counters

def counted():
    print("counted", dict(counters["stats"]), sum(counters["graph_break"].values()), flush=True)
    torch._dynamo.reset()
    counters.clear()

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
step = torch.compile(optimizer.step, backend="aot_eager")
for _ in range(30):
    model(torch.randn(4, 8)).sum().backward()
    step()
counted()

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
@torch.compile(backend="aot_eager")
def train(x):
    loss = model(x).sum()
    loss.backward()
    optimizer.step()  # After the graph break: what it calls in eager code, Dynamo looks at.
    optimizer.zero_grad()
    return loss
for _ in range(20):
    train(torch.randn(4, 8))
counted()
"""


@pytest.mark.slow
def test_what_is_compiled_of_a_training_step_is_what_it_is_without_us(tmp_path: Path) -> None:
    """An optimizer's step by itself, and a whole training step."""
    (tmp_path / "job.py").write_text(TRAINING)
    plain = plain_python("job.py", cwd=tmp_path)
    done = watch(tmp_path, "--", "job.py")
    alone, watched = (re.findall("counted .*", each) for each in (plain.stdout, done.stderr))
    assert len(alone) == 2 and watched == alone


def test_a_job_keeps_its_descriptors_and_gets_each_signal_once(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("""
import os, signal, sys, time
told = int(sys.argv[1])
got = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, frame: got.append(number))
os.write(told, b"ready")
while got.count(signal.SIGTERM) < 1:
    time.sleep(0.05)
os.write(told, str([int(each) for each in got]).encode())
""")
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "dynalyze", "watch", "--", "job.py", str(writing)]
    watcher = subprocess.Popen(
        command, cwd=tmp_path, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert os.read(reading, 100) == b"ready"
    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM):
        watcher.send_signal(number)
        time.sleep(1.0)  # Signals that come together count as one press.
    assert os.read(reading, 100).decode() == str([int(signal.SIGUSR1), int(signal.SIGINT), int(signal.SIGTERM)])
    watcher.wait(WALL_SECONDS)


@pytest.mark.slow
def test_ranks_that_a_program_spawns_itself_are_known_by_torch_distributed(tmp_path: Path) -> None:
    program = """
import multiprocessing, os, time
def main(rank):
    import dynalyze, torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for step in range(30):
        dynalyze.step()
    dist.barrier()
    time.sleep(1)
    os._exit(0)
if __name__ == "__main__":
    ranks = [multiprocessing.get_context("spawn").Process(target=main, args=(rank,)) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
"""
    (tmp_path / "job.py").write_text(program)
    done = watch(tmp_path, "--json", "job.json", "--", "job.py")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "job.json").read_text())
    assert [(row["rank"], row["steps"]) for row in report["job"]["ranks"]] == [(0, 30), (1, 30)]


def test_a_process_that_runs_already_is_watched_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "attach.py").write_text(attaching_script(tmp_path / "records", tmp_path / "done"))
    in_the_middle = ALONE.replace(
        "    run(", "    if step == 20:\n        exec(open('attach.py').read(), {})\n    run("
    )
    (tmp_path / "job.py").write_text(in_the_middle)
    plain_python("job.py", "120", cwd=tmp_path)
    assert (tmp_path / "done").exists()
    done = watch(tmp_path, "--json", "job.json", "records")
    job = json.loads((tmp_path / "job.json").read_text())["job"]
    assert [(row["steps"], row["recompiles"]) for row in job["ranks"]] == [(100, 1)], done.stderr


@pytest.mark.skipif(hasattr(sys, "remote_exec"), reason="this Python attaches")
def test_attach_says_how_to_be_prepared_where_python_cannot(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dynalyze", "attach", str(os.getpid())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=WALL_SECONDS, check=False)
    assert done.returncode == 2 and "DYNALYZE_WATCH" in done.stderr


def wait_for(folder: Path) -> None:
    """Until a rank has told where it is."""
    deadline = time.monotonic() + WALL_SECONDS
    while not any(folder.glob("*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


KILLED = """
import os, signal, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
run = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(200):
    if step == 60 and rank == 1:
        time.sleep(1.0)
        os.kill(os.getpid() if sys.argv[1] == "rank" else os.getppid(), signal.SIGKILL)
    run(torch.randn(4 if step < 40 or rank == 0 else 7, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("who", ["rank", "launcher"])
def test_whoever_is_killed_what_was_recorded_is_told(tmp_path: Path, who: str) -> None:
    (tmp_path / "job.py").write_text(KILLED)
    done = watch(tmp_path, "--json", "job.json", "--", *TORCHRUN, "job.py", who)
    job = json.loads((tmp_path / "job.json").read_text())["job"]
    ranks = [(row["rank"], row["restart"], row["status"]) for row in job["ranks"]]
    assert done.returncode == 3, done.stderr
    assert [(each["ranks"], each["step"]) for each in job["notices"]] == [([1], 40)]
    assert {(1, 0, "running" if who == "launcher" else "gone")} <= set(ranks)
    assert all(row["steps"] >= 50 for row in job["ranks"])
