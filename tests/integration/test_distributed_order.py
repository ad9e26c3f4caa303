"""DistributedDataParallel and torch.compile in each order, on real torch with one rank, told by `dynalyze explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import explain

# Three layers of a bucket's size each: whether the graph is split at buckets shows in the number that the backend gets.
PROGRAM = """
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

graphs = []


def counting(graph, inputs):
    graphs.append(graph)
    return graph


class Ranker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def wrap(model):
    return DistributedDataParallel(model, bucket_cap_mb=1)


def train(model, x):
    for _ in range(2):
        model(x).sum().backward()
    return model


dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
x = torch.randn(4, 512)
ranker = Ranker()
{body}
dist.destroy_process_group()
print("GRAPHS", len(graphs))
"""
OUTSIDE = "model = train(torch.compile(wrap(ranker), backend=counting), x)"
MENDED = "ranker.compile(backend=counting)\nranker(x)\nmodel = wrap(ranker)\ntorch._dynamo.reset()\ntrain(model, x)"


@pytest.mark.parametrize(
    ("body", "split", "inside", "title"),
    [
        (OUTSIDE, 3, False, "torch.compile traces DDP around Ranker: 2 graph breaks in torch's own code"),
        pytest.param(MENDED, 4, True, "", marks=pytest.mark.slow),  # One graph before the reset, three after it.
    ],
    ids=["outside", "mended"],
)
def test_each_order(tmp_path: Path, body: str, split: int, inside: bool, title: str) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(body=body))
    ended, report = explain("train.py", cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert ended.status == 0, ended.stderr
    assert f"GRAPHS {split}" in ended.stderr
    (module,) = report["modules"]
    assert (module["class_name"], module["inside_wrapper"]) == ("Ranker", inside)
    assert module["wrappers"] == ["DistributedDataParallel"]
    assert module["options"] == {"backend": "custom"}
    assert report["settings"]["torch._dynamo.config.optimize_ddp"] is True
    assert findings_of(report) == ([title] if title else [])
    assert not report["capture"]["listener_errors"]


def findings_of(report: dict[str, Any]) -> list[str]:
    """Every finding: the order is all that is wrong, whatever breaks it led to."""
    assert {each["rule"] for each in report["findings"]} <= {"distributed-order"}
    return [each["title"] for each in report["findings"]]
