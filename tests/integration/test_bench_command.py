"""`dynalyze bench`, and the measuring part of `explain`, with real workers on a tiny model."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, Outcome, dynalyze, explain, in_process, interrupted, working_in
from shared_runs import made_once

NET = """
import os, time
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.layer(x))

class Broken(Net):
    def forward(self, x):
        return self.layer(x.reshape(3, 5))

class Counting(Net):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * self.calls

example_inputs = (torch.randn(8, 16),)
"""

BACKENDS = """
import os, signal, time
from pathlib import Path
import torch

def out_of_memory(graph, inputs):
    raise torch.OutOfMemoryError("tried to allocate 3 GiB")

def killed(graph, inputs):
    os.kill(os.getpid(), signal.SIGKILL)

def hangs(graph, inputs):
    Path("hanging").touch()
    time.sleep(600)
"""

WRITTEN = """
import torch
from net import Net

model = torch.compile(Net().eval(), backend="eager", dynamic=False)
with torch.no_grad():
    for _ in range(3):
        model(torch.randn(4, 16))
print("ran")
"""

STREAMED = """
import torch
from net import Net

model = Net().eval()
model.rows = (n for n in range(9))
with torch.no_grad():
    model(torch.randn(4, 16))
print("ran")
"""

FACTORY = """
import torch
from net import Net

def make(batch=1, width=16):
    return Net(), (torch.randn(batch, width),)
"""

QUICK = ("--seconds", "0.2", "--pairs", "1", "--threads", "1", "--no-accuracy", "--no-memory")


PROGRAMS = {"net": NET, "faulty": BACKENDS, "written": WRITTEN, "streamed": STREAMED, "sizes": FACTORY}


def with_programs(folder: Path) -> Path:
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return with_programs(tmp_path)


def bench(cwd: Path, *arguments: str, quick: tuple[str, ...] = QUICK) -> tuple[Outcome, dict[str, Any]]:
    """`dynalyze bench ARGUMENTS`, and the report; nothing of it still runs."""
    ended = dynalyze("bench", *quick, *arguments, "--json", "bench.json", cwd=cwd)
    assert TRACEBACK not in ended.stdout
    assert working_in(cwd) == []
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(cwd) not in listed
    if not (cwd / "bench.json").exists():
        pytest.fail(f"exit status {ended.status} and no report\n{ended.stderr[-2000:]}")
    report: dict[str, Any] = json.loads((cwd / "bench.json").read_text())
    return ended, report


def rows(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["configuration"]: row for row in report["measurements"]}


@dataclass(frozen=True)
class Measured:
    """A benchmark that several tests look at."""

    ended: Outcome
    report: dict[str, Any]


@pytest.fixture(scope="module")
def of_object(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """An object, measured in all respects, by two configurations that fail and one that does not."""
    names = "backend=faulty:out_of_memory,backend=faulty:killed,backend=eager"
    quick = ("--seconds", "0.2", "--pairs", "2", "--threads", "1", "--prices")

    def measure(folder: Path) -> Measured:
        return Measured(*bench(with_programs(folder), "net.py:Net", "--configs", names, quick=quick))

    return made_once(tmp_path_factory, "bench-of-object", measure)


@pytest.mark.slow
def test_an_object_is_measured_with_all_that_belongs_to_it(of_object: Measured) -> None:
    ended, report = of_object.ended, of_object.report
    assert ended.status == 0
    eager, compiled = rows(report)["eager"], rows(report)["backend=eager"]
    assert [(row["configuration"], row["status"]) for row in (eager, compiled)] == [
        ("eager", "valid"),
        ("backend=eager", "valid"),
    ]
    assert compiled["options"] == {"backend": "eager"}
    assert (compiled["batch"], compiled["dtype"], compiled["device"], compiled["threads"]) == (8, "float32", "cpu", 1)
    assert compiled["counts"]["compiled_frames"] == 1
    assert compiled["latency_ms"]["p50"] > 0
    assert len(compiled["samples"]) == compiled["speedup"]["pairs"] == 2
    assert compiled["speedup"]["verdict"] == "no difference shown"  # two pairs never show one
    startup = compiled["startup"]
    assert startup["cold_calls_ms"][0] > startup["cold_calls_ms"][-1]
    assert startup["warm_calls_ms"] and startup["eager_calls_ms"]
    assert compiled["memory"]["steady_peak"] > 0
    assert compiled["prices"]["runs"] or compiled["prices"]["problem"]  # Withheld where other work takes the cores.
    assert [(each["configuration"], each["verdict"]) for each in report["accuracy"]] == [("backend=eager", "equal")]
    assert report["target"] == {"kind": "object", "spec": "net.py:Net", "arguments": [], "model": None}
    assert report["outcome"]["status"] == "complete"
    assert report["environment"]["torch"]
    assert report["environment"]["threads"] == 1


@pytest.fixture(scope="module")
def of_program(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A program that compiles by itself, measured with the default set."""

    def measure(folder: Path) -> Measured:
        quick = tuple(option for option in QUICK if option != "--no-memory")
        return Measured(*bench(with_programs(folder), "written.py", quick=quick))

    return made_once(tmp_path_factory, "bench-of-program", measure)


def test_a_program_is_run_once_and_its_calls_are_measured(of_program: Measured) -> None:
    assert of_program.ended.status == 0
    assert of_program.ended.stderr.count("ran") == 1
    assert rows(of_program.report)["eager"]["calls"] == 3


def test_what_the_program_wrote_itself_is_measured_before_the_default(of_program: Measured) -> None:
    found = of_program.report["measurements"]
    assert [(row["configuration"], row["status"]) for row in found] == [
        ("eager", "valid"), ("as written", "valid"), ("default", "valid"),
    ]  # fmt: skip
    assert found[1]["options"] == {"backend": "eager", "dynamic": False}
    assert found[1]["counts"]["compiled_frames"] == 1
    assert found[1]["startup"]["cache"] == {}  # Inductor had no part in it.


def test_the_second_process_finds_what_the_first_one_compiled(of_program: Measured) -> None:
    startup = rows(of_program.report)["default"]["startup"]
    assert startup["cache"] != startup["warm_cache"]
    assert sum(count for name, count in startup["cache"].items() if "hit" in name) == 0
    assert sum(count for name, count in startup["warm_cache"].items() if "hit" in name) > 0


def test_what_cannot_travel_says_that_the_program_could_be_run_again(cwd: Path) -> None:
    ended, report = bench(cwd, "streamed.py", "--configs", "backend=eager")
    assert (ended.status, ended.stderr.count("ran")) == (0, 1)
    (reason,) = {row["reason"] for row in report["measurements"]}
    assert "generator" in reason
    assert "`dynalyze bench --rerun` would measure by running the script again in every process" in reason
    assert {(row["status"], row["latency_ms"]) for row in report["measurements"]} == {("invalid", None)}


def test_a_program_that_fails_is_not_measured(cwd: Path) -> None:
    (cwd / "program.py").write_text("import torch\nraise SystemExit(5)\n")
    ended, report = bench(cwd, "program.py")
    assert (ended.status, report["outcome"]["status"], report["measurements"]) == (3, "failed", [])


def test_a_model_that_fails_in_eager_is_exit_status_3(cwd: Path) -> None:
    ended, report = bench(cwd, "net.py:Broken", "--configs", "backend=eager")
    assert (ended.status, report["outcome"]["status"]) == (3, "failed")
    assert "shape" in report["outcome"]["message"]
    assert {row["status"] for row in report["measurements"]} == {"failed"}


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "says"), [("out_of_memory", "3 GiB"), ("killed", "SIGKILL")])
def test_what_fails_in_one_configuration_leaves_the_others(of_object: Measured, backend: str, says: str) -> None:
    failed = rows(of_object.report)[f"backend=faulty:{backend}"]
    assert (failed["status"], failed["latency_ms"], says in failed["reason"]) == ("failed", None, True)
    assert of_object.ended.status == 0
    assert rows(of_object.report)["backend=eager"]["status"] == "valid"


def test_ctrl_c_writes_what_is_there(cwd: Path) -> None:
    ended = interrupted(
        "bench", "net.py:Net", "--configs", "backend=faulty:hangs", "--allow-effects", *QUICK, "--json", "bench.json",
        cwd=cwd, when=cwd / "hanging",
    )  # fmt: skip
    report = json.loads((cwd / "bench.json").read_text())
    assert (ended.status, report["outcome"]["status"]) == (130, "interrupted")
    assert [row["reason"] for row in report["measurements"]] == ["interrupted before it was timed"] * 2
    assert working_in(cwd) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("net.py:Net", "--configs", "reduce-overheads"), "did you mean reduce-overhead?"),
        (("net.py:Net", "--configs", "regional", "--mode", "max-autotune"), "--mode is for the configuration"),
        (("net.py:Net", "--configs", "default", "--matrix"), "exclude each other"),
        (("net.py:Net", "--batch", "0"), "--batch 0"),
        (("net.py:Net", "--configs", "default,backend=indctor"), "unknown backend 'indctor'"),
        (("net.py:Nett",), "no 'Nett'"),
        (("net.py:Net", "--dtype", "floaty"), "unknown --dtype"),
        (("net.py:Net", "--configs", "as written"), "net.py:Net is compiled by dynalyze"),
        (("net.py:Net", "--rerun"), "--rerun is for programs"),
        (("written.py", "--shapes", "batch=1"), "--dim batch=INPUT:AXIS"),
        (("gone.py:Net",), "no such file"),
    ],
)
def test_a_mistake_is_one_line(cwd: Path, arguments: tuple[str, ...], says: str) -> None:
    asks_torch = any(each in arguments for each in ("net.py:Nett", "floaty", "default,backend=indctor"))
    run = dynalyze if asks_torch else in_process
    ended = run("bench", *arguments, *QUICK, "--json", "bench.json", cwd=cwd)
    ours = [line for line in ended.stderr.splitlines() if line.startswith("dynalyze: ") and "first calls" not in line]
    assert (ended.status, len(ours), ended.stdout) == (2, 1, "")
    assert says in ours[0]
    assert not (cwd / "bench.json").exists()


def test_explain_says_why_it_measured_nothing(cwd: Path) -> None:
    (cwd / "program.py").write_text("import torch\nprint(torch.ones(1))\n")
    ended, report = explain("program.py", cwd=cwd, bench=True)
    assert (ended.status, report["measurements"]) == (0, [])
    assert "No speed was measured: nothing was compiled." in report["capture"]["notes"]
