"""Processes that the target starts: under torch's launcher, and where they do not hear of us."""

from __future__ import annotations

from pathlib import Path

from program import explain

RANKS = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")


@torch.compile(backend="eager")
def scaled(x):
    y = x * 2
    print("rank", dist.get_rank())
    return y + 1


scaled(torch.ones(3))
dist.destroy_process_group()
"""


def test_each_rank_of_torchrun_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    launcher = ("-m", "torch.distributed.run", "--", "--standalone", "--nproc-per-node", "2", "ranks.py")
    ended, report = explain(*launcher, cwd=tmp_path)
    assert ended.status == 0, ended.stderr
    ranks = {process["process"]: process["rank"] for process in report["processes"]}
    assert ranks.pop(0) is None  # The launcher itself.
    assert sorted(ranks.values()) == [0, 1]
    assert {each["process"] for each in report["compilations"]} == set(ranks)
    (found,) = report["graph_breaks"]
    assert (found["location"]["line"], found["gb_id"]) == (10, "GB0059")
    assert found["processes"] == sorted(ranks)


WORKER = """\
import torch


@torch.compile(backend="eager")
def scaled(x):
    y = x * 2
    print("in the worker")
    return y + 1


scaled(torch.ones(3))
"""


def test_a_worker_that_ignores_pythonpath_is_recorded_through_torchs_own_log(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    start = "import subprocess, sys\nsubprocess.run([sys.executable, '-I', 'worker.py'], check=True)\n"
    (tmp_path / "main.py").write_text(start)
    ended, report = explain("main.py", cwd=tmp_path)
    assert ended.status == 0, ended.stderr
    (found,) = report["graph_breaks"]
    assert (Path(found["location"]["file"]).name, found["location"]["line"]) == ("worker.py", 7)
    assert (found["gb_id"], found["effect"], found["occurrences"]) == ("GB0059", "split", 1)
    assert [step["line"] for step in found["stack"]] == [11, 7]
    assert report["outcome"]["status"] == "complete"
    assert len(report["processes"]) == 2
