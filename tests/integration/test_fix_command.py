"""`dynalyze fix` and `verify` as a user runs them, held against torch itself: its counters on the changed program."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import Outcome, dynalyze, plain_python
from shared_runs import made_once

PROGRAM = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        scale = y.abs().max().item()
        y = y / scale
        print("shape", tuple(y.shape))  # told
        self.last = y.mean().item()
        return y


torch.manual_seed(1)
model = torch.compile(Model(), backend="eager")
x = torch.randn(4, 8)
for _ in range(2):
    model(x)
"""
COUNTED = """
from torch._dynamo.utils import counters
import json
print("COUNTED", json.dumps([sum(counters["graph_break"].values()), counters["stats"].get("unique_graphs", 0)]))
"""
# Without a sandbox effects of the program would be refused; test_wrong_changes.py has what takes one.
SETTINGS = ("--no-bench", "--quiet-target", "--sandbox", "off")


def run(*arguments: str, cwd: Path) -> Outcome:
    """As a user does; the processes that prove are forked off a server that has imported torch."""
    return dynalyze(*arguments, cwd=cwd, bench=True)


def torchs_count(program: Path) -> list[int]:
    """Graph breaks and graphs of a program, by torch's own counters."""
    program.with_name("counted.py").write_text(program.read_text() + COUNTED)
    said = plain_python("counted.py", cwd=program.parent).stdout
    return [int(each) for each in json.loads(said.rpartition("COUNTED ")[2])]


def fixed(folder: Path) -> dict[str, Any]:
    (folder / "model.py").write_text(PROGRAM)
    outputs = ("--json", "fix.json", "--patch", "p.diff", "--html", "f.html")
    done = run("fix", "model.py", *SETTINGS, *outputs, cwd=folder)
    assert done.status == 0, done.stderr
    report = json.loads((folder / "fix.json").read_text())
    return {"report": report, "patch": (folder / "p.diff").read_text(), "said": done.stdout}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(made_once(tmp_path_factory, "fix_command", fixed))


@pytest.fixture
def folder(tmp_path: Path, found: dict[str, Any]) -> Path:
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "p.diff").write_text(found["patch"])
    return tmp_path


def test_what_is_proved_holds_for_torch(folder: Path, found: dict[str, Any]) -> None:
    program, told = folder / "model.py", found["report"]["fixed"]
    before = torchs_count(program)
    subprocess.run(["git", "apply", "p.diff"], cwd=folder, check=True, capture_output=True)
    without_setting = torchs_count(program)
    program.write_text(f"import torch\n{told['setting']}\n{program.read_text()}")
    after = torchs_count(program)
    assert (before[0], after[0]) == (told["before"]["breaks"], told["after"]["breaks"]) == (3, 1)
    assert without_setting[0] == 2 and before[1] > after[1]


def test_each_break_is_fixed_by_what_leaves_all_else_as_it_was(found: dict[str, Any]) -> None:
    report = found["report"]
    verified = [each for each in report["fixes"] if each["status"] == "verified"]
    code = {each["id"]: each["location"]["code"] for each in report["graph_breaks"]}
    ended = [(code[name].split()[0], each["kind"]) for each in verified for name in each["breaks"]]
    # A number that is kept has to stay one: only a setting can end that break. What prints has to print.
    assert ended == [("scale", "source"), ("self.last", "setting")]
    (left,) = report["fixed"]["unfixed"]
    assert left["place"]["code"].startswith('print("shape",')
    rejected = [each["reason"] for each in report["fixes"] if each["title"].startswith("Leave `print(...)`")]
    assert rejected == ["the program no longer prints 'shape (4, 8)'"]
    assert all(3 <= each["evidence"]["draws"] <= 20 and each["evidence"]["outputs"] == "bitwise" for each in verified)
    assert not any(each["evidence"]["effects"] for each in verified)
    program = report["fixed"]["evidence"]["program"]
    assert program["runs"] == 2 and program["different"] == "" and "printed lines" in program["compared"]


def test_the_last_line_is_the_command_that_writes(found: dict[str, Any]) -> None:
    command = found["said"].splitlines()[-1]
    outputs = "--json fix.json --patch p.diff --html f.html"
    assert command == f"dynalyze fix model.py --no-bench --quiet-target --sandbox off {outputs} --write"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fix", "model.py", "--only", "b9", "--only", "b1"], "b9"),
        (["verify", "model.py", "model.py"], "do not differ"),
        (["verify", "model.py", "nowhere.py"], "no such file: nowhere.py"),
    ],
)
def test_mistakes(folder: Path, arguments: list[str], said: str) -> None:
    done = run(*arguments, *SETTINGS, cwd=folder)
    assert done.status == 2 and said in done.stderr.splitlines()[-1]
