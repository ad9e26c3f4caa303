"""What makes guards cheaper, tried in a real process. What it gains is measured by benchmarks/prices.py."""

from __future__ import annotations

from pathlib import Path

from bench_process import of_object

from dynalyze.bench.prices import priced
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import WorkerPool
from dynalyze.launch.streams import Streams
from dynalyze.report.measurements import Prices
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


def measured(folder: Path) -> Prices:
    """Measured again while other work on the machine makes the prices untrue."""
    (folder / "guarded.py").write_text(MODEL)
    arm = Arm(of_object(folder / "guarded.py", "Guarded", ["torch.ones(2, 2)"]), None)
    with WorkerPool(Streams("target", quiet=True), WALL_SECONDS) as pool:
        found = (priced(pool, arm, 0.2, None, None)[0] for _ in range(10))
        return next(prices for prices in found if prices.remedies)


def test_settings_are_tried_against_the_guards_on_a_list_of_configs(tmp_path: Path) -> None:
    prices = measured(tmp_path)
    known = {each.name: each for each in prices.remedies}
    assert [each.safe for each in prices.remedies] == sorted((each.safe for each in prices.remedies), reverse=True)
    kept = known["keep_tensor_guards_unsafe"]
    assert kept.outputs == "equal" and kept.dropped is not None and kept.dropped > 600
    assert "recursive dict tags" in known and "isolate_recompiles" not in known, "torch.compile is called once"
    for each in prices.remedies:  # A busy machine has problems with times.
        assert (each.before_ms is None) == (each.gain_ms is None) == bool(each.problem)
    advised = [group for version in prices.guards for group in version.groups if group.advice]
    # The narrowest group with nearly all of the price: on a busy machine the one around it may be told instead.
    assert {(each.source, each.holds) for each in advised} & {("self.configs", "values"), ("self", "values")}
