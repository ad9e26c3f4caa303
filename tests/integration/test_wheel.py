"""The built wheel, in a bare environment without torch: it answers, and it renders a saved report."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from shared_runs import made_once

from dynalyze.report import GraphBreak, Location, Outcome, Report, Target
from dynalyze.report.document import to_json
from limits import WALL_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, env=environment, timeout=WALL_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that holds the wheel and its dependencies, and nothing else."""
    return made_once(tmp_path_factory, "wheel", installed)


def installed(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT, cwd=folder)
    venv.create(folder / "bare", with_pip=False)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", folder / "bare/bin/python", "install", "--quiet", wheel, cwd=folder)
    return folder


def saved_report() -> Report:
    place = Location("/home/you/model.py", 3, 4, "forward", "print(x)", 12)
    found = GraphBreak("b1", "GB0059", "Failed to trace builtin operator", "split", place, [place])
    return Report(
        "0.1.0", "2026-11-21T00:00:00Z", ["explain", "model.py"], {"torch": "2.13.0"}, Target("script", "model.py"),
        Outcome("complete"), graph_breaks=[found],
    )  # fmt: skip


def test_wheel_renders_a_report_without_torch(bare: Path) -> None:
    (bare / "report.json").write_text(to_json(saved_report()))
    run(bare / "bare/bin/dynalyze", "report", "report.json", "--html", "page.html", cwd=bare)
    page = (bare / "page.html").read_text()
    assert "model.py:3" in page and "GB0059" in page
    assert "Content-Security-Policy" in page


def test_wheel_explains_breaks_offline(bare: Path) -> None:
    shown = run(bare / "bare/bin/dynalyze", "rules", "GB0059", cwd=bare)
    assert "Failed to trace builtin operator" in shown
    recipe = run(bare / "bare/bin/dynalyze", "rules", "print", cwd=bare)
    assert "Before:" in recipe and "reorderable_logging_functions" in recipe
    assert run(bare / "bare/bin/dynalyze", "--skill", cwd=bare).startswith("---\nname: dynalyze\n")


def test_wheel_has_the_pytest_plugin(bare: Path) -> None:
    code = "import importlib.metadata as m; print([e.value for e in m.entry_points(group='pytest11')])"
    assert "dynalyze.pytest_plugin" in run(bare / "bare/bin/python", "-c", code, cwd=bare)


def test_wheel_carries_what_the_child_needs(bare: Path) -> None:
    """The child starts, and says what its interpreter lacks."""
    (bare / "plain.py").write_text("print('no torch here')\n")
    command = [str(bare / "bare/bin/dynalyze"), "explain", "--no-bench", "plain.py"]
    ended = subprocess.run(command, cwd=bare, capture_output=True, text=True, check=False, timeout=WALL_SECONDS)
    assert ended.returncode == 2
    *_, line = ended.stderr.splitlines()
    assert line.startswith(f"dynalyze: torch is missing in {bare}")
