"""A worker that ignores the environment's PYTHONPATH is recorded through torch's own log."""

from __future__ import annotations

from pathlib import Path

from program import explain

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
    ended, report = explain("main.py", cwd=tmp_path)
    assert ended.status == 0, ended.stderr
    (found,) = report["graph_breaks"]
    assert (Path(found["location"]["file"]).name, found["location"]["line"]) == ("worker.py", 7)
    assert (found["gb_id"], found["effect"], found["occurrences"]) == ("GB0059", "split", 1)
    assert [step["line"] for step in found["stack"]] == [11, 7]
    assert report["outcome"]["status"] == "complete"
    assert len(report["processes"]) == 2
