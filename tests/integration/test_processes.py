"""Processes that the target starts under a launcher of torch's own."""

from __future__ import annotations

from pathlib import Path

from program import explain

PROGRAM = """\
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
    (tmp_path / "ranks.py").write_text(PROGRAM)
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
