"""A model too large to copy is timed in the program's own process, which leaves the program and its record alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import plain_python

from dynalyze.bench.in_turns import SHARED
from dynalyze.cli.group import run

PROGRAM = """
import atexit
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 32)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = {compiled}
for _ in range(3):
    optimizer.zero_grad()
    step(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()


@atexit.register
def save():
    norm = model[1]
    print("left", float(norm.running_mean.sum()), int(norm.num_batches_tracked), float(model[0].weight.grad.sum()))
    print("next", float(torch.rand(1)), model.training, float(model[0].weight.sum()))
"""


@pytest.mark.parametrize(
    "compiled", ["torch.compile(model, backend='eager')", pytest.param("model", marks=pytest.mark.slow)]
)
def test_it_is_timed_where_it_is_and_left_as_it_was(
    compiled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fit.py").write_text(PROGRAM.format(compiled=compiled))
    plain = plain_python("fit.py", cwd=tmp_path)
    monkeypatch.setattr("dynalyze.cli.explain._LARGEST_COPY", 1024)
    monkeypatch.chdir(tmp_path)
    given = [] if "compile" in compiled else ["--backend", "eager"]
    status = run(["explain", "fit.py", *given, "--bench-seconds", "60", "--json", "r.json"])
    said = capfd.readouterr().err
    assert status == 0, said
    assert [line for line in said.splitlines() if line.startswith(("left", "next"))] == plain.stdout.splitlines()
    report = json.loads((tmp_path / "r.json").read_text())
    eager, row = report["measurements"]
    assert eager["configuration"] == "eager" and eager["phase"] == row["phase"] == "train"
    assert row["status"] == "valid" and SHARED in row["notes"]
    assert 3 <= row["speedup"]["pairs"] <= 10 and len(eager["samples"]) == len(row["samples"])
    assert len(report["compilations"]) == 1  # None of those that the timing made.
    assert not any(finding["rule"] == "not-recorded" for finding in report["findings"])


LOUD = """
import torch


class Loud(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x):
        x = self.linear(x)
        print("loud")
        return self.linear(x)


net = torch.compile(Loud(), backend="eager")
for _ in range(3):
    net(torch.randn(8, 32))
"""


def test_what_it_prints_is_not_printed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    monkeypatch.setattr("dynalyze.cli.explain._LARGEST_COPY", 1024)
    monkeypatch.chdir(tmp_path)
    status = run(["explain", "loud.py", "--bench-seconds", "30", "--json", "r.json"])
    said = capfd.readouterr().err
    assert status == 0, said
    assert said.splitlines().count("loud") == 3
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["measurements"][1]["status"] == "valid"
    assert [each["occurrences"] for each in report["graph_breaks"]] == [1]
