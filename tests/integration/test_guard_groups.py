"""Where the guards of a call are spent, in a real process. What they take is measured by benchmarks/prices.py."""

from __future__ import annotations

from pathlib import Path

from bench_process import of_object

from dynalyze.bench.prices import priced
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import WorkerPool
from dynalyze.launch.streams import Streams
from limits import WALL_SECONDS

MODEL = """
import torch
class Config:
    def __init__(self, value):
        self.value = value
class Guarded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.configs = [Config(value) for value in range(600)]
    def forward(self, x):
        return x + sum(each.value for each in self.configs)
"""


def test_the_guards_on_a_list_of_configs_are_told_with_what_would_have_fewer(tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(MODEL)
    arm = Arm(of_object(tmp_path / "guarded.py", "Guarded", ["torch.ones(2, 2)"]), None)
    with WorkerPool(Streams("target", quiet=True), WALL_SECONDS) as pool:  # Other work can make prices untrue.
        measured = (priced(pool, arm, 0.2, None, None).prices for _ in range(10))
        advised = next(
            found for prices in measured if (found := [g for each in prices.guards for g in each.groups if g.advice])
        )
    # The narrowest group with nearly all of the price: on a busy machine the one around it may be told instead.
    assert {(each.source, each.holds) for each in advised} & {("self.configs", "values"), ("self", "values")}
