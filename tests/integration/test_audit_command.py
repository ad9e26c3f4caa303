"""`dynalyze audit` on real models: what passes, what fails and where, waivers, a baseline, shapes, mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ci_files import OPTIONS, fingerprint_of, junit_outcomes, sarif_results
from program import Outcome, dynalyze, in_process, interrupted

SMALL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu()


class Broken(Net):
    def forward(self, x):
        x = super().forward(x)
        print("here")
        return x + 1
"""
SERVED = """
import pathlib
import time

import torch


class Counter(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


def build(batch=2, length=3):
    if batch == 77:
        pathlib.Path("seventy-seven").touch()
        time.sleep(60)
    return Counter(), (torch.randn(batch, length),)
"""
INPUT = ("--input", "torch.randn(3, 4)")
QUICK = ("--no-bench", "--backend", "eager")
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python brings no reader of TOML before 3.11")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(SMALL, encoding="utf-8")
    (tmp_path / "served.py").write_text(SERVED, encoding="utf-8")
    return tmp_path


def audit(folder: Path, *arguments: str) -> tuple[Outcome, dict[str, Any]]:
    ended = dynalyze("audit", *arguments, "--json", "audit.json", cwd=folder, env={"HF_HUB_OFFLINE": "1"})
    file = folder / "audit.json"
    return ended, json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def line_with(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


@pytest.mark.slow
def test_speed_memory_and_answers_are_measured(folder: Path) -> None:
    ended = dynalyze(
        "audit", "net.py:Net", *INPUT, "--backend", "eager", "--bench-seconds", "0.05", "--json", "audit.json",
        cwd=folder, bench=True, seconds=600,
    )  # fmt: skip
    assert ended.status == 0, ended.stderr[-2000:]
    report = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    (answers,) = (each for each in report["policy"]["checks"] if each["name"] == "accuracy")
    assert (answers["status"], answers["found"]) == ("passed", "same answers")
    (measured,) = (each for each in report["measurements"] if each["configuration"] == "default")
    assert measured["memory"]["ratio"] > 0
    assert "audit, step 2 of 2: the measurement of speed, memory and answers" in ended.stderr


@needs_toml
def test_an_expired_waiver_of_the_project_of_the_target_passes_nothing(folder: Path) -> None:
    project = folder / "served"
    (project / "models").mkdir(parents=True)
    (folder / "net.py").rename(project / "models" / "net.py")
    place = 'rule = "graph-break"\nfile = "net.py"'
    waiver = f'[[tool.dynalyze.audit.ignore]]\n{place}\nreason = "known"\nexpires = 2020-01-31\n'
    (project / "pyproject.toml").write_text(waiver, encoding="utf-8")
    ended, report = audit(folder, "served/models/net.py:Broken", *INPUT, *QUICK, *OPTIONS)
    assert ended.status == 1, ended.stderr[-2000:]
    assert report["policy"]["source"] == str(project / "pyproject.toml")
    assert report["policy"]["waivers"][0]["used"] == 1
    assert report["policy"]["summary"].endswith("the waiver of graph-break expired on 2020-01-31")
    (result,) = sarif_results(folder)
    assert "suppressions" not in result
    assert (result["level"], fingerprint_of(result)) == ("error", report["findings"][0]["fingerprint"])
    assert junit_outcomes(folder)["dynalyze.policy.max-graph-breaks"] == "failure"


def test_a_baseline_is_written_and_tells_old_from_new_over_moved_lines(folder: Path) -> None:
    command = ("net.py:Broken", *INPUT, *QUICK, "--baseline", "known.json")
    ended, _ = audit(folder, *command, "--update-baseline")
    assert ended.status == 0, ended.stderr[-2000:]
    more = SMALL.replace("return x + 1", "torch._dynamo.graph_break()\n        return x + 1")
    (folder / "net.py").write_text("import os\n\n\n" + more, encoding="utf-8")
    ended, report = audit(folder, *command, "--no-source")
    assert ended.status == 1, ended.stderr[-2000:]
    assert (report["policy"]["known"], len(report["policy"]["new"])) == (1, 1)
    assert report["policy"]["summary"].startswith("FAIL: 1 graph break: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--baseline", "none.json"), "--baseline none.json: no such file; --update-baseline writes it"),
        (("--update-baseline",), "--update-baseline writes --baseline FILE; name it"),
        (("--update-baseline", "--baseline", "nowhere/known.json"), "no such directory"),
        (("--shapes", "batch"), "--shapes batch: give names with their sizes"),
        (("--dim", "n=0:0"), "--shapes gives no sizes for n"),
        pytest.param(("--policy", "bad.toml"), "bad.toml: 'max-breaks' is not known; did you mean", marks=needs_toml),
    ],
)
def test_a_mistake_ends_before_anything_runs(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    (folder / "bad.toml").write_text("max-breaks = 1\n", encoding="utf-8")
    (folder / "net.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n{SMALL}", encoding="utf-8")
    ended = in_process("audit", "net.py:Net", *INPUT, *QUICK, *arguments, "--json", "audit.json", cwd=folder)
    assert (ended.status, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (folder / "ran").exists() and not (folder / "audit.json").exists()


@pytest.mark.slow
def test_shapes_are_judged_and_one_that_nothing_takes_is_a_mistake(folder: Path) -> None:
    ended, report = audit(folder, "served.py:build", *QUICK, "--shapes", "batch=2|3,length=4")
    assert ended.status == 1, ended.stderr[-2000:]
    assert report["policy"]["summary"].startswith("FAIL: recompiles on every new batch")
    assert [run["shape"] for run in report["warmup"]["calls"]] == [
        {"batch": 2, "length": 4}, {"batch": 3, "length": 4},
    ]  # fmt: skip
    (late,) = (each for each in report["findings"] if each["rule"] == "compiles-after-warmup")
    assert (Path(late["location"]["file"]).name, late["location"]["line"]) == (
        "served.py",
        line_with(SERVED, "forward"),
    )


def test_a_model_that_is_none_of_transformers_has_no_attention_matrix(folder: Path) -> None:
    ended, report = audit(folder, "net.py:Net", *INPUT, *QUICK, "--attention-matrix")
    assert (ended.status, ended.stdout, report) == (2, "", {})
    assert "Net is none. Name an architecture (hf:NAME)" in ended.stderr
    assert "step 1" not in ended.stderr


@pytest.mark.slow
def test_ctrl_c_in_a_later_step_keeps_what_was_found(folder: Path) -> None:
    ended = interrupted(
        "audit", "served.py:build", *QUICK, "--allow-effects", "--shapes", "batch=2|77", "--json", "audit.json",
        cwd=folder, when=folder / "seventy-seven",
    )  # fmt: skip
    assert ended.status == 130, ended.stderr[-2000:]
    assert "Traceback" not in ended.stderr
    report = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert report["outcome"]["message"] == "Interrupted during: the warm-up check."
    assert (report["warmup"]["stopped"], report["policy"]["passed"]) == ("interrupted", False)
    assert report["compilations"]


def test_a_target_that_fails_keeps_its_own_exit_status(folder: Path) -> None:
    (folder / "fails.py").write_text("raise RuntimeError('no')\n", encoding="utf-8")
    ended, report = audit(folder, "fails.py", *QUICK[:1])
    assert ended.status == 3
    assert report["policy"]["passed"] is False
    assert "the program failed" in report["policy"]["summary"]
