"""A model too large to copy, or too slow to trace, is timed in the program's own process, which leaves the program and
its record alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import plain_python
from warm_starts import start_by_forks

from dynalyze.bench.records import SHARED, SLOW_TO_TRACE, TOO_LARGE
from dynalyze.cli.group import run

PROGRAM = """
import atexit
import torch


class Loud(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.1))
        self.last = torch.nn.Linear(64, 32)

    def forward(self, x):
        x = self.first(x)
        print("loud")
        return self.last(x)


torch.manual_seed(0)
model = Loud()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = {compiled}
for _ in range(3):
    optimizer.zero_grad()
    step(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()


@atexit.register
def save():
    linear, norm, _ = model.first
    print("left", float(norm.running_mean.sum()), int(norm.num_batches_tracked), float(linear.weight.grad.sum()))
    print("next", float(torch.rand(1)), model.training, float(linear.weight.sum()))
"""


@pytest.mark.parametrize(
    ("compiled", "why"),
    [
        ("torch.compile(model, backend='eager')", TOO_LARGE),
        ("torch.compile(model, backend='eager')", SLOW_TO_TRACE),
        pytest.param("model", TOO_LARGE, marks=pytest.mark.slow),
        pytest.param("model", SLOW_TO_TRACE, marks=pytest.mark.slow),
    ],
)
def test_it_is_timed_where_it_is_and_left_as_it_was(
    compiled: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fit.py").write_text(PROGRAM.format(compiled=compiled))
    plain = plain_python("fit.py", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    start_by_forks(monkeypatch, measures=True)
    given = [] if "compile" in compiled else ["--backend", "eager"]
    if why == TOO_LARGE:
        monkeypatch.setattr("dynalyze.cli.explain._LARGEST_COPY", 1024)
    given += ["--bench-seconds", "60" if why == TOO_LARGE else "16"]  # Less than three pairs of processes take.
    status = run(["explain", "fit.py", *given, "--json", "r.json"])
    said = capfd.readouterr().err
    assert status == 0, said
    shown = [line for line in said.splitlines() if line.startswith(("left", "next", "loud"))]
    assert shown == plain.stdout.splitlines()  # Nothing of the timed calls.
    report = json.loads((tmp_path / "r.json").read_text())
    eager, row = report["measurements"]
    assert eager["configuration"] == "eager" and eager["phase"] == row["phase"] == "train"
    assert row["status"] == "valid" and f"{why}, so {SHARED}" in row["notes"]
    assert row["speedup"]["one_process"] is True
    assert 3 <= row["speedup"]["pairs"] <= 10 and len(eager["samples"]) == len(row["samples"])
    # Of the two halves, and none of those that the timing made.
    assert len(report["compilations"]) == 2 and [each["occurrences"] for each in report["graph_breaks"]] == [1]
    assert not any(finding["rule"] == "not-recorded" for finding in report["findings"])


def test_a_program_that_fails_afterwards_is_not_told_as_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAM.format(compiled="torch.compile(model, backend='eager')")
    (tmp_path / "fit.py").write_text(f"{program}\nraise ValueError('the disk is full')\n")
    monkeypatch.chdir(tmp_path)
    start_by_forks(monkeypatch, measures=True)
    run(["explain", "fit.py", "--bench-seconds", "16", "--json", "r.json", "--quiet-target"])
    report = json.loads((tmp_path / "r.json").read_text())
    _, row = report["measurements"]
    assert report["answers_unchecked"] == "the run failed" and f"the run failed, so {SHARED}" in row["notes"]


@pytest.mark.parametrize("target", ["fit.py:Loud", pytest.param("hf:BertModel", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["eval", pytest.param("train", marks=pytest.mark.slow)])
def test_what_dynalyze_builds_is_timed_as_it_was_called(
    target: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fit.py").write_text(PROGRAM.partition("torch.manual_seed")[0])
    monkeypatch.chdir(tmp_path)
    start_by_forks(monkeypatch, measures=True)
    given = ["--input", "torch.randn(8, 32)"] if target.endswith("Loud") else []
    # Less than three pairs of processes take, and enough for three turns.
    status = run(
        ["explain", target, *given, f"--{mode}", "--backend", "eager", "--bench-seconds", "8", "--json", "r.json"]
    )
    said = capfd.readouterr().err
    assert status == 0, said
    report = json.loads((tmp_path / "r.json").read_text())
    _, row = report["measurements"]
    assert row["status"] == "valid" and f"{SLOW_TO_TRACE}, so {SHARED}" in row["notes"]
    assert row["phase"] == ("train" if mode == "train" else "forward")
    # What was compiled for the call that is explained is timed, and compiled no second time.
    assert row["counts"]["recompiles_while_timing"] == 0 and len(row["startup"]["warm_calls_ms"]) >= 3
    # Nor for its answers, for which 8 s leave another process no time.
    assert mode == "train" or [each["verdict"] for each in report["accuracy"]] == ["equal"]
    assert not any(finding["rule"] == "not-recorded" for finding in report["findings"])


STEPS = """
import torch

net = torch.nn.Linear(4, 4)


class Force(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = torch.nn.Linear(4, 1)

    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.energy(x).sum(), x)[0]


def train_step(x):
    net(x).square().mean().backward()
    return net.weight.grad.sum()
"""


@pytest.mark.parametrize("name", ["train_step", "Force"])
def test_what_takes_gradients_itself_is_called_with_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    monkeypatch.chdir(tmp_path)
    given = ["--input", "torch.randn(2, 4)", "--backend", "eager", "--no-bench"]
    assert run(["explain", f"steps.py:{name}", *given, "--json", "r.json"]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["graph_breaks"]
