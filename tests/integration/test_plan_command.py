"""`dynalyze plan` as a user runs it: on what was measured before, and with real processes on a tiny model."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, Outcome, dynalyze, in_process

from dynalyze.bench.shapes import automatic_compiles, marked_compiles
from dynalyze.cli.plan import why_nothing_was_measured
from dynalyze.render.text.plans import sentences
from dynalyze.report.document import to_json
from dynalyze.report.measurements import Latency, Measurement, Pair, StartUp
from dynalyze.report.plans import CompilePlan
from limits import WALL_SECONDS
from sample_reports import empty_report

NET = """
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.linear(x))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(Layer(), Layer())
        self.last = torch.nn.Sequential(Layer(), Layer())

    def forward(self, x):
        x = self.layers(x)
        if x.sum() > 1e6:
            x = x / 2
        return self.last(x)

def make():
    return Net(), (torch.randn(8, 16),)
"""

VERSIONS = """
import json, sys
import torch

def versions(shapes, mark):
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: torch.relu(x * 2) + 1, backend=backend)
    for shape in shapes:
        x = torch.ones(shape)
        for axis in range(x.dim() if mark else 0):
            torch._dynamo.mark_dynamic(x, axis)
        compiled(x)
    return len(graphs)

print(json.dumps([[versions(shapes, mark) for mark in (False, True)] for shapes in json.load(sys.stdin)]))
"""

Command = Callable[..., Outcome]


def plan(
    cwd: Path, *arguments: str, run: Command = dynalyze, file: str = "plan.json"
) -> tuple[Outcome, dict[str, Any]]:
    ended = run("plan", *arguments, "--json", file, cwd=cwd)
    assert TRACEBACK not in ended.stdout + ended.stderr
    if ended.status != 0:
        pytest.fail(f"exit status {ended.status}\n{ended.stderr[-2000:]}")
    report: dict[str, Any] = json.loads((cwd / file).read_text())
    return ended, report


def row(name: str, first: float, ms: float) -> Measurement:
    startup = StartUp(eager_calls_ms=[10.0], steady_after=1)
    if name != "eager":
        startup = StartUp(cold_calls_ms=[first], warm_calls_ms=[first / 10], eager_calls_ms=[10.0], steady_after=1)
    times = Latency(ms, ms, ms, ms, ms, None, 2)
    return Measurement(name, latency_ms=times, samples=[Pair([10.0, 10.0], [ms, ms])], startup=startup)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A benchmark of a way that saves 5 ms a call and takes 20 s to start, 2 s with warm caches."""
    report = empty_report()
    report.command, report.measurements = ["bench", "net.py"], [row("eager", 10, 10.0), row("default", 20_000, 5.0)]
    (tmp_path / "bench.json").write_text(to_json(report))
    (tmp_path / "shapes.csv").write_text("ids:0,ids:1,count\n8,100,50\n8,120,50\n1,120,1\n")
    return tmp_path


def test_a_saved_benchmark_is_planned_without_running_anything(measured: Path) -> None:
    asked = ("bench.json", "--calls", "1000", "--histogram", "shapes.csv", "--html", "plan.html")
    ended, report = plan(measured, *asked, run=in_process)
    found = report["plan"]
    assert (found["choice"], found["warm_choice"]) == ("eager", "default")  # 10 s, and 25 or 7 s.
    assert found["shapes"]["sources"] == "L['ids']"
    assert "mark_dynamic(ids, 1, min=100, max=120)" in ended.stdout
    page = (measured / "plan.html").read_text()
    assert "What to compile" in page
    later, report = plan(
        measured, "plan.json", "--calls", "100000", run=in_process, file="later.json"
    )  # A plan can be planned again.
    assert report["plan"]["choice"] == "default"
    assert "model = torch.compile(model)" in later.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("bench.json", "--calls", "5", "--lifetime", "5"), "exclude each other"),
        (("bench.json", "--dim", "n=0:0"), "--histogram"),
        (("bench.json", "--histogram", "missing.csv"), "missing.csv"),
        (("empty.json",), "no measurements"),
        (("net.py:make", "--configs", "fast"), "fast"),
    ],
)
def test_a_mistake_is_one_line(measured: Path, arguments: tuple[str, ...], told: str) -> None:
    (measured / "empty.json").write_text(to_json(empty_report()))
    (measured / "net.py").write_text(NET)
    ended = in_process("plan", *arguments, cwd=measured)
    assert ended.status == 2
    assert told in ended.stderr and len(ended.stderr.strip().splitlines()) == 1


SIZED = """
import torch

def make(rows=4):
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(rows, 16),)
"""


@pytest.mark.slow
def test_every_way_and_every_size_to_pad_to_is_measured(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SIZED)
    (tmp_path / "shapes.csv").write_text("rows,count\n8,1000\n64,100\n60,10\n")
    _, report = plan(
        tmp_path, "net.py:make", "--backend", "aot_eager", "--bench-seconds", "500", "--threads", "1",
        "--start-up", "100", "--histogram", "shapes.csv",
    )  # fmt: skip
    found = report["plan"]
    points = {each["configuration"]: each for each in found["points"]}
    assert {"eager", "default", "dynamic=on"} == set(points)
    assert [each["configuration"] for each in found["not_measured"]] == ["regional"]  # There is no ModuleList.
    assert found["choice"] == min(points, key=lambda name: points[name]["ms"])
    compiled = [each for name, each in points.items() if name != "eager"]
    assert all(each["start_up"] > 0 and each["warm_start_up"] > 0 and each["lines"] for each in compiled)
    buckets = found["shapes"]["buckets"]
    assert [(each["padded_to"], each["calls"]) for each in buckets] == [({"rows": 8}, 1000), ({"rows": 64}, 110)]
    assert all(each["ms"] > 0 and each["eager_ms"] > 0 for each in buckets) and found["shapes"]["total"] > 0


WRITES = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        with open("rows.txt", "a") as rows:
            rows.write("row")
        return x + 1

net = torch.compile(Net(), backend="eager")
net(torch.ones(2))
"""


def test_a_plan_that_measured_nothing_says_why_and_ends_with_4(tmp_path: Path) -> None:
    (tmp_path / "writes.py").write_text(WRITES)
    ended = dynalyze("plan", "writes.py", "--json", "plan.json", "--html", "p.html", cwd=tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())["plan"]
    assert (ended.status, plan["points"]) == (4, [])
    assert "opens rows.txt" in plan["problem"] and "--allow-effects" in plan["problem"]
    assert ended.stdout.startswith("There is no plan: ")


def test_a_plan_without_time_says_what_to_do() -> None:
    """By hand: whether a budget lasts depends on the machine."""
    report = empty_report()
    report.measurements = [Measurement("eager", status="failed", reason="the time was up before it was timed")]
    problem, remedy = why_nothing_was_measured(report, 100.0)
    assert "100 s" in problem and "--bench-seconds 400" in remedy
    plan = CompilePlan(problem=problem, remedy=remedy)
    assert sentences(plan) == [f"There is no plan: {problem}.", f"{remedy[:1].upper()}{remedy[1:]}."]


@pytest.mark.slow
def test_torch_compiles_as_many_versions_as_a_histogram_says() -> None:
    chance = random.Random(3)
    some = [1, 2, 3, 5, 8, 13]
    sent = [
        [[chance.choice(some) for _ in range(axes)] for _ in range(chance.randint(1, 8))]
        for axes in (1, 2, 2, 3)
        for _ in range(12)
    ]
    variables = {**os.environ, "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", VERSIONS], input=json.dumps(sent), capture_output=True, text=True, check=True,
        env=variables, timeout=WALL_SECONDS,
    )  # fmt: skip
    shapes = [[tuple((str(axis), size) for axis, size in enumerate(each)) for each in every] for every in sent]
    told = [[automatic_compiles(each), marked_compiles(each)] for each in shapes]
    assert json.loads(ended.stdout) == told
