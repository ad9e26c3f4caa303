"""Dynamic sizes that a line makes constants, on real torch, live and from torch's own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import dynalyze, explain

Json = dict[str, Any]

# Each function makes a constant of `rows`, dimension 0 of its argument, on the line that says FORCES.
FORCING = {
    "compares": """
def compares(batch):
    if batch.shape[0] == 3:  # FORCES
        return batch.sin()
    return batch.cos()
""",
    "counts": """
def counts(batch):
    total = batch.sum()
    for index in range(batch.shape[0]):  # FORCES
        total = total + index
    return total
""",
    "calls": """
def rows_of(items):
    return [None] * int(items.shape[0])  # FORCES

def calls(batch):
    return batch + len(rows_of(batch))
""",
    "meets": """
from torch import ones
FIXED = ones(3, 2)

def meets(batch):
    return torch.cat([batch.T, FIXED.T + batch.T], 1)  # FORCES
""",
}
HEAD = "import torch\n"
DYNAMIC = """
run = torch.compile({name}, backend="eager", dynamic=True)
run(torch.ones(3, 2))
run(torch.ones(4, 2)) if {name}.__name__ != "meets" else None
"""
MARKED = """
run = torch.compile({name}, backend="eager")
batch = torch.ones(3, 2)
torch._dynamo.mark_dynamic(batch, 0)
try:
    run(batch)
except Exception as error:
    assert "Constraints violated" in str(error), error
"""
ASKS = """import torch

def helper(rows):
    if rows > 3:  # FORCES
        return 1
    return -1

def asks(batch):
    return batch + helper(batch.shape[0])

run = torch.compile(asks, backend="eager", dynamic=True)
run(torch.ones(5, 2))
run(torch.ones(2, 2))
"""
HARMLESS = """import torch

layer = torch.nn.Linear(5, 3)
run = torch.compile(lambda rows: layer(rows), backend="eager", dynamic=True)
run(torch.ones(4, 5))
run(torch.ones(6, 5))
"""


def write(folder: Path, source: str) -> tuple[Path, int]:
    """The program, and the line in it that makes the constant."""
    path = folder / "serve.py"
    path.write_text(source, encoding="utf-8")
    return path, next((n for n, line in enumerate(source.splitlines(), 1) if "FORCES" in line), 0)


def explained(folder: Path, source: str) -> tuple[Json, int]:
    path, line = write(folder, source)
    ended, report = explain(path.name, "--no-bench", cwd=folder)
    assert ended.status == 0, ended.stderr[-2000:]
    return report, line


def of(report: Json, source: str = "batch.size()[0]") -> Json:
    (size,) = [each for each in report["forced_sizes"] if each["source"] == source]
    return dict(size)


@pytest.mark.parametrize("name", ["compares", "counts", "calls"])
def test_the_line_that_fixed_a_size_is_told_with_the_recompile(tmp_path: Path, name: str) -> None:
    report, line = explained(tmp_path, HEAD + FORCING[name] + DYNAMIC.format(name=name))
    size = of(report)
    assert (size["location"]["line"], size["dimension"], size["refused"]) == (line, 0, False)
    assert size["values"][0] == "3"
    (again,) = report["recompiles"]
    assert size["recompiles"] == [again["id"]]
    assert (again["cause"], again["forced_by"]["line"]) == ("shape", line)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["location"]["line"]) == ("recompile", line)
    assert f"serve.py:{line}" in finding["advice"]
    assert "mark_dynamic" not in finding["advice"], "it is dynamic already"


@pytest.mark.parametrize("name", [pytest.param("compares", marks=pytest.mark.slow), "counts", "calls", "meets"])
def test_a_marked_size_that_a_line_fixes(tmp_path: Path, name: str) -> None:
    report, line = explained(tmp_path, HEAD + FORCING[name] + MARKED.format(name=name))
    size = of(report)
    assert (size["refused"], size["values"], size["location"]["line"]) == (True, ["3"], line)
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"], finding["location"]["line"]) == ("compile-failed", "error", line)
    assert size["id"] in finding["evidence"]
    assert f"serve.py:{line}" in finding["advice"]
    assert "`batch.size()[0] == 3`" in finding["advice"]
    assert "torch._dynamo.maybe_mark_dynamic(batch, 0)" in finding["advice"]


def test_allowing_the_constant_as_advised_compiles(tmp_path: Path) -> None:
    source = HEAD + FORCING["compares"] + MARKED.format(name="compares")
    report, _ = explained(tmp_path, source.replace("mark_dynamic(", "maybe_mark_dynamic("))
    assert [each["status"] for each in report["compilations"]] == ["compiled"]
    assert of(report)["refused"] is False
    assert report["findings"] == []


def test_a_line_that_asks_about_a_size_is_told(tmp_path: Path) -> None:
    """No constant: the code holds for one answer. The line is in a helper, the recompiled function calls it."""
    report, line = explained(tmp_path, ASKS)
    assert report["forced_sizes"] == []
    (again,) = report["recompiles"]
    assert (again["cause"], again["location"]["function"]) == ("symbolic", "asks")
    assert (again["forced_by"]["line"], again["forced_by"]["function"]) == (line, "helper")
    (finding,) = report["findings"]
    assert finding["location"]["line"] == line
    assert f"serve.py:{line}" in finding["advice"]


def test_a_size_that_never_changes_is_a_fact_and_no_finding(tmp_path: Path) -> None:
    report, _ = explained(tmp_path, HARMLESS)
    size = of(report, "rows.size()[1]")
    assert (size["values"], size["recompiles"], size["location"]["line"]) == (["5"], [], 4)
    assert report["findings"] == []


@pytest.mark.parametrize("kind", [pytest.param(DYNAMIC, marks=pytest.mark.slow), MARKED])
def test_a_log_of_torch_tells_the_same(tmp_path: Path, kind: str) -> None:
    path, line = write(tmp_path, HEAD + FORCING["calls"] + kind.format(name="calls"))
    logs = tmp_path / "logs"
    subprocess.run(
        [sys.executable, path],
        check=True,
        env={**os.environ, "TORCH_TRACE": str(logs)},
        capture_output=True,
        timeout=100,
    )
    (log,) = logs.glob("*.log")
    path.unlink()
    assert dynalyze("report", log, "--json", tmp_path / "r.json", cwd=tmp_path).status == 0
    report = json.loads((tmp_path / "r.json").read_text())
    size = of(report)
    assert (size["location"]["line"], size["values"][0]) == (line, "3")
    assert str(size["location"]["code"]).startswith("return [None] * int(items.shape[0])")
    assert size["refused"] is (kind == MARKED)
    assert report["findings"][0]["location"]["line"] == line


def test_no_source_names_the_line_and_quotes_nothing(tmp_path: Path) -> None:
    source = HEAD + FORCING["compares"].replace("batch", "canary_batch") + DYNAMIC.format(name="compares")
    path, line = write(tmp_path, source)
    files = [tmp_path / "r.json", tmp_path / "r.html"]
    ended = dynalyze("explain", path, "--no-bench", "--no-source", "--json", files[0], "--html", files[1], cwd=tmp_path)
    assert ended.status == 0
    report = json.loads(files[0].read_text())
    (size,) = report["forced_sizes"]
    assert (size["location"]["line"], size["source"], size["values"][0]) == (line, None, "3")
    assert f"serve.py:{line}" in report["findings"][0]["advice"]
    assert [text for text in (ended.stdout, *(f.read_text() for f in files)) if "canary_batch" in text] == []
