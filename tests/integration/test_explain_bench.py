"""The benchmark of `dynalyze explain`: the report is there before it, and it ends when its budget is used up."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from program import explain, plain_python, wait_for, working_in
from warm_starts import start_dynalyze

from limits import WALL_SECONDS

TRAINING = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    net(torch.randn(4, 8))
"""
MEASURED = "its speed is being measured"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "fit.py").write_text(TRAINING)
    return tmp_path


def notes_of(report: dict[str, Any]) -> str:
    return "\n".join(report["capture"]["notes"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_benchmark_that_is_ended_leaves_the_report(cwd: Path, number: signal.Signals) -> None:
    asked = ["fit.py", "--backend", "eager", "--bench-seconds", "600", "--json", "r.json", "--html", "p.html"]
    command, variables = start_dynalyze(["explain", *asked, "--markdown", "m.md"], {}, measures=True)
    with subprocess.Popen(
        command, cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_for(cwd / "p.html", process)
            process.send_signal(number)
            process.communicate(timeout=WALL_SECONDS)
        finally:
            process.kill()
    report = json.loads((cwd / "r.json").read_text())
    assert report["compilations"]
    assert "Sequential" in (cwd / "p.html").read_text()
    assert (cwd / "m.md").exists()
    if number == signal.SIGKILL:
        assert MEASURED in notes_of(report)
    else:  # We live on, and say what became of it.
        assert (process.returncode, report["outcome"]["status"]) == (128 + number, "interrupted")
    assert _gone_from(cwd)


def test_a_budget_that_is_too_small_says_how_to_measure(cwd: Path) -> None:
    asked = ("fit.py", "--backend", "eager", "--bench-seconds", "0.01", "--redact")
    ended, report = explain(*asked, "--", "--epochs", "a b", cwd=cwd, bench=True)
    assert (ended.status, report["measurements"], report["accuracy"]) == (0, [], [])
    (note,) = [note for note in report["capture"]["notes"] if "not measured" in note]
    assert note.startswith("Speed: not measured in 0.01 s: `")
    command = shlex.split(note.split("`")[1])
    assert command == ["dynalyze", "bench", "fit.py", "--backend", "eager", "--redact", "--", "--epochs", "a b"]
    assert MEASURED not in notes_of(report)
    assert ended.stdout.count("not measured in 0.01 s") == 1
    assert _gone_from(cwd)


def test_processes_that_measure_find_what_the_run_has_compiled(cwd: Path) -> None:
    """An Inductor setting of ours in their environment gave every graph another key: each compiled anew, in vain."""
    (cwd / "fit.py").write_text(TRAINING.replace("net = ", "net = torch.compile(").replace("1))\n", "1)))\n", 1))
    plain, measured = cwd / "plain", cwd / "measured"
    plain_python("fit.py", cwd=cwd, env={"TORCHINDUCTOR_CACHE_DIR": str(plain)})
    _, report = explain(
        "fit.py", "--bench-seconds", "20", cwd=cwd, bench=True, env={"TORCHINDUCTOR_CACHE_DIR": str(measured)}
    )
    (row,) = [each for each in report["measurements"] if each["configuration"] != "eager"]
    assert row["speedup"] is not None
    graphs = {folder: {each.name for each in folder.glob("fxgraph/*/*")} for folder in (plain, measured)}
    assert graphs[plain] and graphs[measured] == graphs[plain]


def _gone_from(folder: Path) -> bool:
    """Whether no process works in this folder any more, after a while for those that have just been ended."""
    deadline = time.monotonic() + WALL_SECONDS
    while working_in(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


WRONG = """
import torch

COUNTS = {}
weights = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(2))]
for number, weight in enumerate(weights, 1):
    COUNTS[weight] = torch.full_like(weight, 10.0 * number)


def add(weight):
    with torch.no_grad():
        count = COUNTS[weight]
        weight.add_(count)


add = torch.compile(add, backend="eager")
for _ in range(2):
    for weight in weights:
        add(weight)
"""


def test_wrong_answers_of_a_run_without_breaks_come_first(cwd: Path) -> None:
    """Dynamo of 2.13 takes one parameter for another. Eager adds 10 to the first twice, 20 to the second: 21 and 41."""
    (cwd / "steps.py").write_text(WRONG)
    ended, report = explain("steps.py", "--bench-seconds", "120", cwd=cwd, bench=True, seconds=400)
    assert (ended.status, report["graph_breaks"], report["answers_unchecked"]) == (0, [], "")
    (test,) = report["accuracy"]
    worst = test["tensors"][0]
    assert (test["verdict"], test["calls"]) == ("suspicious", 4)
    assert (worst["eager_value"], worst["compiled_value"]) == (41.0, 1.0)
    assert [each["severity"] for each in report["findings"] if each["rule"] == "accuracy-suspicious"] == ["error"]
    assert ended.stdout.startswith("Wrong answers: ")
    assert "41 in eager and 1 in compiled" in " ".join(ended.stdout.split())


def test_without_a_benchmark_the_first_sentence_says_that_answers_were_not_checked(cwd: Path) -> None:
    ended, report = explain("fit.py", "--backend", "eager", cwd=cwd)
    assert report["answers_unchecked"] == "--no-bench"
    assert "answers not checked: --no-bench." in " ".join(ended.stdout.split())
