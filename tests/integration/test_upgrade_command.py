"""`dynalyze upgrade` on the real program, with one interpreter on both sides, where nothing can be told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from program import dynalyze

PROGRAM = """
import torch

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(64, 64)

    def forward(self, x):
        h = self.fc(x).relu()
        print("norm")
        return h * h.sum().item()


net = torch.compile(Net(), backend="eager")
with torch.no_grad():
    for size in (4, 4, 5):
        net(torch.ones(size, 64))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(PROGRAM)
    return file


@pytest.mark.slow
def test_one_interpreter_on_both_sides_changes_nothing(model: Path, tmp_path: Path) -> None:
    ended = dynalyze(
        "upgrade", model, "--from", sys.executable, "--to", sys.executable, "--bench-seconds", "90", "--pairs", "5",
        "--fail-on", "regression", "--json", "-", "--html", tmp_path / "page.html", cwd=tmp_path, real=True,
    )  # fmt: skip
    assert ended.status == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout)
    assert not found["worse"] and found["comparison"]["regressions"] == []
    assert len(found["comparison"]["breaks"]["unchanged"]) == 2 and found["comparison"]["recompiles"]["after"] >= 1
    assert min(found["latency_ms"]) > 0
    outputs = found["outputs"]
    assert [outputs[name] for name in ("before", "after", "eager_across", "compiled_across")] == ["equal"] * 4
    assert "model.py" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "--to PATH"),
        (("--python", "python3", "--to", "python3"), "--from and --to"),
        (("--to", "/no/such/python", "--from", "/no/such/python"), "/no/such/python"),
    ],
)
def test_a_mistake_is_one_line(model: Path, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    ended = dynalyze("upgrade", model, *options, cwd=tmp_path)
    lines = [line for line in ended.stderr.splitlines() if "run 1" not in line]
    assert ended.status == 2 and len(lines) == 1 and says in lines[0], ended.stderr
