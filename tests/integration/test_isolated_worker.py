"""A worker that ignores the environment's PYTHONPATH is recorded through torch's own log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from limits import WALL_SECONDS

WORKER = """\
import torch


@torch.compile(backend="eager")
def scaled(x):
    y = x * 2
    print("in the worker")
    return y + 1


scaled(torch.ones(3))
"""
PROGRAM = """\
import subprocess
import sys

subprocess.run([sys.executable, "-I", "worker.py"], check=True)
"""


def test_isolated_worker_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "main.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "dynalyze", "explain", "--no-bench", "main.py", "--json", "out.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=WALL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    (found,) = report["graph_breaks"]
    assert (Path(found["location"]["file"]).name, found["location"]["line"]) == ("worker.py", 7)
    assert (found["gb_id"], found["effect"], found["occurrences"]) == ("GB0059", "split", 1)
    assert [step["line"] for step in found["stack"]] == [11, 7]
    assert report["outcome"]["status"] == "complete"
    assert len(report["processes"]) == 2
