"""Where the guards of a call are spent, in a real process. What they take is measured by benchmarks/prices.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_process import of_object
from warm_starts import start_by_forks

from dynalyze.bench.schedule import Arm, recorded
from dynalyze.bench.workers import WorkerPool
from dynalyze.break_cost.records import GuardGroup
from dynalyze.break_cost.run import EXTRA
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


def test_the_guards_on_a_list_of_configs_are_told_with_what_would_have_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_by_forks(monkeypatch, measures=True)
    (tmp_path / "guarded.py").write_text(MODEL)
    arm = Arm(of_object(tmp_path / "guarded.py", "Guarded", ["torch.ones(2, 2)"]), None)
    advised: list[GuardGroup] = []
    with WorkerPool(Streams("target", quiet=True), WALL_SECONDS) as pool:
        while not advised:  # Other work can make prices untrue.
            with recorded(pool, arm, None) as process:
                prices = EXTRA.measure(process, 0.2, [])
            advised = [group for each in prices.guards for group in each.groups if group.advice]
    # The narrowest group with nearly all of the price: on a busy machine the one around it may be told instead.
    assert {(each.source, each.holds) for each in advised} & {("self.configs", "values"), ("self", "values")}
