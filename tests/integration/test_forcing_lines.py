"""Dynamic sizes that a line makes constants, on real torch, live and from torch's own log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from program import dynalyze, explain, plain_python
from shared_runs import made_once

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


class Forced(NamedTuple):
    """One program with several functions of FORCING, and the line in each that makes the constant."""

    report: Json
    lines: dict[str, int]

    def at(self, kind: str, name: str) -> Json:
        """The only forced size, or finding, at the line of this function; there is one for each function."""
        assert len(self.report[kind]) == len(self.lines)
        (found,) = [each for each in self.report[kind] if each["location"]["line"] == self.lines[name]]
        return dict(found)


def in_one_program(factory: pytest.TempPathFactory, kind: str, *names: str) -> Forced:
    source = HEAD + "".join(FORCING[name] + kind.format(name=name) for name in names)
    marked = [number for number, line in enumerate(source.splitlines(), 1) if "FORCES" in line]
    report = made_once(factory, f"forced-{names[-1]}", lambda folder: explained(folder, source)[0])
    return Forced(report, dict(zip(names, marked, strict=True)))


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Forced:
    return in_one_program(tmp_path_factory, DYNAMIC, "compares", "counts", "calls")


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Forced:
    return in_one_program(tmp_path_factory, MARKED, "compares", "counts", "calls", "meets")


@pytest.mark.parametrize("name", ["compares", "counts", "calls"])
def test_the_line_that_fixed_a_size_is_told_with_the_recompile(dynamic: Forced, name: str) -> None:
    size, line = dynamic.at("forced_sizes", name), dynamic.lines[name]
    assert (size["source"], size["dimension"], size["refused"]) == ("batch.size()[0]", 0, False)
    assert size["values"][0] == "3"
    assert len(dynamic.report["recompiles"]) == len(dynamic.lines)
    (again,) = [each for each in dynamic.report["recompiles"] if each["location"]["function"] == name]
    assert size["recompiles"] == [again["id"]]
    assert (again["cause"], again["forced_by"]["line"]) == ("shape", line)
    finding = dynamic.at("findings", name)
    assert finding["rule"] == "recompile"
    assert f"serve.py:{line}" in finding["advice"]
    assert "mark_dynamic" not in finding["advice"], "it is dynamic already"


@pytest.mark.parametrize("name", FORCING)
def test_a_marked_size_that_a_line_fixes(marked: Forced, name: str) -> None:
    size = marked.at("forced_sizes", name)
    assert (size["source"], size["refused"], size["values"]) == ("batch.size()[0]", True, ["3"])
    finding = marked.at("findings", name)
    assert (finding["rule"], finding["severity"]) == ("compile-failed", "error")
    assert size["id"] in finding["evidence"]
    assert f"serve.py:{marked.lines[name]}" in finding["advice"]
    assert "`batch.size(0) == 3`" in finding["advice"]
    assert "torch._dynamo.maybe_mark_dynamic(batch, 0)" in finding["advice"]


def test_allowing_the_constant_as_advised_compiles(tmp_path: Path) -> None:
    source = HEAD + FORCING["compares"] + MARKED.format(name="compares")
    report, _ = explained(tmp_path, source.replace("mark_dynamic(", "maybe_mark_dynamic("))
    assert [each["status"] for each in report["compilations"]] == ["compiled"]
    assert of(report)["refused"] is False
    assert report["findings"] == []


@pytest.fixture(scope="module")
def unforced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, int]:
    """The report of ASKS and HARMLESS in one program, and the line of the first that asks."""
    return made_once(tmp_path_factory, "unforced", lambda folder: explained(folder, ASKS + HARMLESS))


def test_a_line_that_asks_about_a_size_is_told(unforced: tuple[Json, int]) -> None:
    """No constant: the code holds for one answer. The line is in a helper, the recompiled function calls it."""
    report, line = unforced
    assert [each["source"] for each in report["forced_sizes"]] == ["rows.size()[1]"]  # Of HARMLESS.
    (again,) = report["recompiles"]
    assert (again["cause"], again["location"]["function"]) == ("symbolic", "asks")
    assert (again["forced_by"]["line"], again["forced_by"]["function"]) == (line, "helper")
    (finding,) = report["findings"]
    assert finding["location"]["line"] == line
    assert f"serve.py:{line}" in finding["advice"]


def test_a_size_that_never_changes_is_a_fact_and_no_finding(unforced: tuple[Json, int]) -> None:
    report, _ = unforced
    size, line = of(report, "rows.size()[1]"), len(ASKS.splitlines()) + 4
    assert (size["values"], size["recompiles"], size["location"]["line"]) == (["5"], [], line)
    assert line not in {each["location"]["line"] for each in report["findings"]}
    assert [finding for finding in report["findings"] if size["id"] in finding["evidence"]] == []


@pytest.mark.parametrize("kind", [pytest.param(DYNAMIC, marks=pytest.mark.slow), MARKED])
def test_a_log_of_torch_tells_the_same(tmp_path: Path, kind: str) -> None:
    path, line = write(tmp_path, HEAD + FORCING["calls"] + kind.format(name="calls"))
    logs = tmp_path / "logs"
    plain_python(path.name, cwd=tmp_path, env={"TORCH_TRACE": str(logs)})
    (log,) = logs.glob("*.log")
    path.unlink()
    assert dynalyze("report", log, "--json", tmp_path / "r.json", cwd=tmp_path).status == 0
    report = json.loads((tmp_path / "r.json").read_text())
    size = of(report)
    assert (size["location"]["line"], size["values"][0]) == (line, "3")
    assert str(size["location"]["code"]).startswith("return [None] * int(items.shape[0])")
    assert size["refused"] is (kind == MARKED)
    assert report["findings"][0]["location"]["line"] == line
