"""The step of an optimizer inside of a compiled function: what torch cuts by itself, and rounds for each parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from program import explain

PROGRAM = """
import torch

net = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(6)))
optimizer = torch.optim.Adam(net.parameters(), foreach=FOREACH)

@torch.compile(backend="eager")
def step():
    optimizer.step()

net(torch.ones(2, 4)).sum().backward()
step()
"""


def findings(folder: Path, foreach: bool) -> dict[str, Any]:
    (folder / "model.py").write_text(PROGRAM.replace("FOREACH", str(foreach)), encoding="utf-8")
    _, report = explain("--no-bench", "model.py", cwd=folder)
    assert report["graph_breaks"]
    return {each["rule"]: each for each in report["findings"]}


def test_a_loop_over_parameters_is_left_by_foreach(tmp_path: Path) -> None:
    one_by_one, at_once = (findings(tmp_path, foreach) for foreach in (False, True))
    assert "foreach=True" in one_by_one["unrolled-loop"]["advice"]
    assert "unrolled-loop" not in at_once


def test_the_break_that_torch_wants_is_no_warning(tmp_path: Path) -> None:
    found = findings(tmp_path, foreach=True)
    assert found["optimizer-step"]["severity"] == "info"
    assert "graph-break" not in found
