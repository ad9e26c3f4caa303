"""A program that compiles a model whose graph breaks are in a library: what to compile in its place, followed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from many_programs import graphs
from program import explain

SOLVER = """
def solve(rate, y, steps):
    for step in range(steps):
        print("step", step)
        y = y + rate(y) / steps
    return y
"""
PROGRAM = """
import sys
import torch

torch.set_grad_enabled(False)
sys.path.insert(0, "site-packages")
import solver

class Rate(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rate, self.head = Rate(), torch.nn.Linear(4, 1)

    def forward(self, y):
        BEFORE
        return self.head(solver.solve(self.rate, y, 3))

model = Model()
compiled = torch.compile(model, backend="eager")
for _ in range(2):
    compiled(torch.ones(2, 4))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "solver.py").write_text(SOLVER, encoding="utf-8")
    return tmp_path


def part_told(folder: Path, plain: str) -> dict[str, Any]:
    (folder / "model.py").write_text(plain, encoding="utf-8")
    _, report = explain("--no-bench", "model.py", cwd=folder)
    (finding,) = (each for each in report["findings"] if each["rule"] == "compile-a-part")
    return dict(finding)


def test_the_part_that_a_library_calls_is_compiled_in_the_place_of_all(folder: Path) -> None:
    plain = PROGRAM.replace("BEFORE", "y = y * 1")
    (folder / "model.py").write_text(plain, encoding="utf-8")
    _, report = explain("--no-bench", "model.py", cwd=folder)
    assert {Path(each["location"]["file"]).name for each in report["graph_breaks"]} == {"solver.py"}
    first = report["findings"][0]
    assert first["rule"] == "compile-a-part"
    assert first["location"]["code"] == 'compiled = torch.compile(model, backend="eager")'
    line = "model.rate = torch.compile(model.rate, backend='eager')"
    assert f"`{line}`" in first["advice"]
    followed = plain.replace('compiled = torch.compile(model, backend="eager")', f"compiled = model; {line}")
    assert graphs(followed, folder) == 1
    (command,) = re.findall(r"`dynalyze (explain [^`]+)`", first["advice"])
    _, shown = explain(*shlex.split(command)[1:], cwd=folder)
    assert (len(shown["graphs"]), shown["graph_breaks"]) == (1, [])


def test_a_model_whose_own_code_is_cut_once_is_left_whole(folder: Path) -> None:
    plain = PROGRAM.replace("solver.solve(self.rate, y, 3)", "self.rate(y)")
    (folder / "model.py").write_text(plain.replace("BEFORE", "torch._dynamo.graph_break()"), encoding="utf-8")
    _, report = explain("--no-bench", "model.py", cwd=folder)
    assert [each["effect"] for each in report["graph_breaks"]] == ["split"]
    assert "compile-a-part" not in {each["rule"] for each in report["findings"]}


def test_parts_of_what_a_compiled_function_calls_are_compiled_in_its_place(folder: Path) -> None:
    """Also where the function closes over a variable that nobody has set."""
    loss = """
def made():
    def loss(y):
        return model(y).sum() if y is not None else unset
    if len(sys.argv) > 9:
        unset = 1
    return loss

compiled = torch.compile(made(), backend="eager")"""
    plain = PROGRAM.replace("BEFORE", "y = y * 1")
    plain = plain.replace('\ncompiled = torch.compile(model, backend="eager")', loss)
    (folder / "model.py").write_text(plain, encoding="utf-8")
    _, report = explain("--no-bench", "model.py", cwd=folder)
    assert report["outcome"]["status"] == "complete"
    first = report["findings"][0]
    assert first["rule"] == "compile-a-part"
    assert "in place of `loss`" in first["advice"] or "in place of `made.<locals>.loss`" in first["advice"]
    assert "`model.rate = torch.compile(model.rate, backend='eager')`" in first["advice"]


def test_a_network_of_layers_is_compiled_in_the_place_of_the_step_that_runs_in_eager(folder: Path) -> None:
    """torch compiles functions, and no module whose forward is its own: this one runs in eager with the step."""
    plain = """
import torch
torch.set_grad_enabled(False)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
counts = []

@torch.compile(backend="eager")
def step(x):
    found = net(x).argmax(1)
    for each in found:
        counts.append(each.item())
        print(counts[-1])
    return found

step(torch.ones(2, 4))
"""
    finding = part_told(folder, plain)
    line = "net = torch.compile(net, backend='eager')"
    assert f"in place of `step`: `{line}`" in finding["advice"]
    followed = plain.replace('@torch.compile(backend="eager")', line)
    assert [graphs(each, folder) for each in (plain, followed)] == [0, 1]


def test_parts_of_what_a_compiled_method_holds(folder: Path) -> None:
    """By the names of the line that compiles it."""
    plain = """
import torch

class Agent:
    def __init__(self):
        self.actor = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        self.seen = []
        self.plan = torch.compile(self.plan, backend="eager")

    @torch.no_grad()
    def plan(self, x):
        for _ in range(2):
            found = self.actor(x)
            self.seen.append(found.max().item())
            print(self.seen[-1])
        return found

Agent().plan(torch.ones(2, 4))
"""
    finding = part_told(folder, plain)
    line = "self.actor = torch.compile(self.actor, backend='eager')"
    assert f"`{line}`" in finding["advice"]
    followed = plain.replace('self.plan = torch.compile(self.plan, backend="eager")', line)
    assert [graphs(each, folder) for each in (plain, followed)] == [0, 1]
