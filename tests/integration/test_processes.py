"""Processes that the target starts under a launcher of torch's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from limits import WALL_SECONDS

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
    launcher = ["-m", "torch.distributed.run", "--json", "out.json", "--", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "dynalyze", "explain", "--no-bench", *launcher, "ranks.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=WALL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    ranks = {process["process"]: process["rank"] for process in report["processes"]}
    assert ranks.pop(0) is None  # The launcher itself.
    assert sorted(ranks.values()) == [0, 1]
    assert {each["process"] for each in report["compilations"]} == set(ranks)
    (found,) = report["graph_breaks"]
    assert (found["location"]["line"], found["gb_id"]) == (10, "GB0059")
    assert found["processes"] == sorted(ranks)
