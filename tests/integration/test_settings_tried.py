"""A setting that may remove a graph break, tried on real processes: it does, it does not, it changes the answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from bench_process import of_object
from warm_starts import start_by_forks

from dynalyze.bench.extras import RowBench
from dynalyze.bench.schedule import Arm
from dynalyze.bench.workers import WorkerPool
from dynalyze.break_cost.records import BreakPrice, SettingPrice
from dynalyze.break_cost.run import try_setting
from dynalyze.launch.streams import Streams
from dynalyze.report import Location
from dynalyze.report.measurements import Interval, Pair
from limits import WALL_SECONDS

SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
MODEL = """
import torch
class Scaled(torch.nn.Module):
    def forward(self, x):
        x = x * x.abs().max().item()  # reads
        if x.sum().item() > 0:  # decides
            x = x + 1
        if torch.compiler.is_compiling() and hasattr(torch, "planted"):
            x = x * 2
        return torch.relu(x)
"""
EQUALS = [Pair([1.0], [ratio]) for ratio in (0.9, 1.0, 1.1, 1.0, 0.95)]


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with pytest.MonkeyPatch.context() as here:
        start_by_forks(here, measures=True)
        with WorkerPool(Streams("target", quiet=True), WALL_SECONDS) as made:
            yield made


def tried(pool: WorkerPool, folder: Path, setting: str, *marks: str) -> SettingPrice:
    """What becomes of a setting against the breaks of the lines with these marks."""
    (folder / "scaled.py").write_text(MODEL)
    nothing = Interval(0.0, 0.0, 0.0)
    breaks = [
        BreakPrice(Location(str(folder / "scaled.py"), line), "", nothing, 0.0, 0.0, 0.0)
        for line, text in enumerate(MODEL.splitlines(), 1)
        if any(f"# {mark}" in text for mark in marks)
    ]
    arm = Arm(of_object(folder / "scaled.py", "Scaled", ["torch.ones(2, 2)"]), None)
    bench = RowBench(pool, arm, EQUALS, 1, 0.1, 0.0, None, random.Random(0), lambda what: nullcontext())
    return try_setting(bench, setting, breaks, 1)


def test_a_call_is_timed_with_a_setting_that_removes_the_break(pool: WorkerPool, tmp_path: Path) -> None:
    found = tried(pool, tmp_path, SCALARS, "reads", "decides")
    assert found.problem == ""
    assert found.ms is not None and found.plain_ms is not None
    assert found.ms.low < found.ms.value < found.ms.high
    assert [place.line for place in found.stays] == [6], "what decides the way is no number to compute with"
    assert found.left == 1


def test_nothing_is_told_of_a_setting_that_changes_the_answers(pool: WorkerPool, tmp_path: Path) -> None:
    found = tried(pool, tmp_path, f"{SCALARS}\ntorch.planted = True", "reads")
    assert "its answers are suspicious" in found.problem
    assert found.ms is None
