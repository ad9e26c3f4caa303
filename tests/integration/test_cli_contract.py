"""The contract's exit statuses and outputs, on the real program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from program import dynalyze, explain, interrupted
from shared_runs import made_once

BREAKS = """\
import torch

@torch.compile(backend="eager")
def half(x):
    x = x / 2
    print("half of", len(x))
    return x

half(torch.ones(4))
"""
NOTHING = "print('nothing to compile here')\n"
HANGS = "import pathlib, time\npathlib.Path('ready').touch()\nwhile True:\n    time.sleep(0.1)\n"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a program with one break that splits, a warning; beside it the page and the summary of the run."""
    return made_once(tmp_path_factory, "saved", report_of_the_break)


def report_of_the_break(folder: Path) -> Path:
    (folder / "model.py").write_text(BREAKS)
    ended, report = explain("model.py", "--html", "run.html", cwd=folder)
    assert ended.status == 0
    assert [(each["gb_id"], each["effect"]) for each in report["graph_breaks"]] == [("GB0059", "split")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["created"])
    (folder / "run.txt").write_text(ended.stdout)
    return folder / "explained.json"


def ends(code: str, *options: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    """Explain a program; its exit status and the outcome in the report."""
    (cwd / "model.py").write_text(code)
    ended, report = explain("model.py", *options, cwd=cwd)
    assert "dynalyze/capture" not in ended.stderr, "frames of ours in a traceback"
    outcome: dict[str, Any] = report["outcome"]
    return ended.status, outcome


# ---- exit statuses ----------------------------------------------------------------------------------------


def test_an_object_whose_import_fails_is_3(cwd: Path) -> None:
    (cwd / "model.py").write_text("raise OSError('no weights')\nnet = None\n")
    ended, report = explain("model.py:net", cwd=cwd)
    assert ended.status == 3
    assert "no weights" in report["outcome"]["message"]
    assert f"{cwd / 'model.py'}:1" in report["outcome"]["message"]


def test_ctrl_c_is_130_and_keeps_what_was_recorded(cwd: Path) -> None:
    waiting = HANGS.replace("\n", "\n    ").strip()
    target = f"try:\n    {waiting}\nexcept KeyboardInterrupt:\n    raise SystemExit(0)\n"
    (cwd / "model.py").write_text(BREAKS + target)
    ended = interrupted("explain", "model.py", "--json", "report.json", cwd=cwd, when=cwd / "ready")
    assert ended.status == 130
    report = json.loads((cwd / "report.json").read_text())
    assert report["outcome"]["status"] == "interrupted"
    assert [each["gb_id"] for each in report["graph_breaks"]] == ["GB0059"]
    assert "dynalyze/capture" not in ended.stderr


def test_the_time_limit_comes_before_a_finding(cwd: Path) -> None:
    assert ends(HANGS, "--timeout", "1", "--fail-on", "info", cwd=cwd)[0] == 4


# ---- outputs ----------------------------------------------------------------------------------------------


def test_the_page_goes_to_a_folder_of_its_own_by_default(cwd: Path) -> None:
    (cwd / "model.py").write_text(NOTHING)
    ended = dynalyze("explain", "model.py", cwd=cwd)
    pages = list((cwd / "dynalyze-reports").iterdir())
    assert len(pages) == 1
    assert pages[0].suffix == ".html"
    assert str(pages[0].relative_to(cwd)) in ended.stdout
    assert "<!doctype html>" in pages[0].read_text().lower()[:200]
    assert {path.name for path in cwd.iterdir()} - {"__pycache__"} == {"model.py", "dynalyze-reports"}


def test_a_saved_report_renders_as_the_run_did(saved: Path, cwd: Path) -> None:
    ended = dynalyze("report", saved, "--html", cwd / "saved.html", cwd=saved.parent)
    assert saved.with_name("run.html").read_text() == (cwd / "saved.html").read_text()
    body = re.compile(r"^(Page|JSON) .*\n", re.MULTILINE)
    assert body.sub("", saved.with_name("run.txt").read_text()) == body.sub("", ended.stdout)


# ---- without torch ----------------------------------------------------------------------------------------


@pytest.fixture
def without_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which importing torch fails."""
    (tmp_path / "stub/torch").mkdir(parents=True)
    (tmp_path / "stub/torch/__init__.py").write_text("raise ImportError('torch must not be imported')\n")
    return {"PYTHONPATH": str(tmp_path / "stub")}


def test_a_report_renders_where_torch_is_broken(saved: Path, cwd: Path, without_torch: dict[str, str]) -> None:
    ended = dynalyze("report", saved, "--html", "page.html", "--json", "again.json", cwd=cwd, env=without_torch)
    assert ended.status == 0, ended.stderr
    assert "GB0059" in ended.stdout
    assert "GB0059" in (cwd / "page.html").read_text()
    assert json.loads((cwd / "again.json").read_text())["graph_breaks"]


def test_rules_answer_where_torch_is_broken(cwd: Path, without_torch: dict[str, str]) -> None:
    ended = dynalyze("rules", "GB0059", cwd=cwd, env=without_torch)
    assert ended.status == 0 and "GB0059" in ended.stdout, ended.stderr
