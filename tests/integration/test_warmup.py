"""The warm-up check on real models: what compiles, what runs in eager, and what a second start finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from warm_starts import start_by_forks

from dynalyze.audit.warmup import check_warmup
from dynalyze.bench.plan import Plan, shaped
from dynalyze.capture.bench.protocol import Configuration, Work
from dynalyze.launch.shape_options import read_dims, read_shapes
from dynalyze.launch.spec import read_target
from dynalyze.report.audit import Warmup
from dynalyze.text.errors import UsageError

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()

class Counter(Net):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * self.calls

class Fussy(Net):
    def forward(self, x):
        if x.shape[1] == 8:
            raise ValueError("eight is not allowed")
        return self.linear(x)

def make(batch=2, sequence=4):
    return Net(), (torch.randn(batch, sequence, 3),)

def counter(sequence=4):
    return Counter(), (torch.randn(2, sequence, 3),)

def fussy(sequence=4):
    return Fussy(), (torch.randn(2, sequence, 3),)

def wider(width=4):
    return torch.nn.Linear(width, 4), (torch.randn(2, width),)

net = Net()
example_inputs = (torch.randn(2, 4, 3),)
"""


@pytest.fixture(autouse=True)
def _forks(monkeypatch: pytest.MonkeyPatch) -> None:
    start_by_forks(monkeypatch, measures=True)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "served.py"
    file.write_text(MODEL)
    return file


def check(target: str | Path, shapes: str, *dims: str, dynamic: str = "auto", backend: str = "eager") -> Warmup:
    spec = read_target(str(target), None, ())
    named = read_dims(dims)
    works = shaped((Work(),), read_shapes([shapes]), named, spec)
    plan = Plan(
        source={},
        configurations=(Configuration("default", backend=backend, dynamic=dynamic),),
        threads=1,
        timeout=240.0,
    )
    plan = replace(plan, quiet=True)
    return check_warmup(spec, plan, works, named)


@pytest.mark.slow
def test_static_shapes_reach_the_limit_and_dynamic_ones_do_not(model: Path) -> None:
    found = check(f"{model}:make", "batch=2,sequence=4..13", dynamic="off")
    assert found.reason == "" and found.after_warmup == []
    assert [run.compiles for run in found.calls] == [1] * 8 + [0] * 2
    assert [bool(run.in_eager) for run in found.calls] == [False] * 8 + [True] * 2
    assert found.calls[-1].in_eager == ["Net.forward"]
    assert found.calls[8].recompiles[0].cause == "limit"
    again = found.calls[1].recompiles[0]
    assert (again.cause, again.source, again.expected, again.actual) == ("shape", "x.size()[1]", "4", "5")
    assert (again.function, again.file) == ("Net.forward", str(model))
    assert len({number for run in found.calls[:8] for number in run.versions}) == 8
    assert [(each.versions, each.limit) for each in found.functions] == [(8, True)]
    assert found.recompile_limit == 8
    assert found.dynamic_trial is not None and found.dynamic_trial.versions == 1
    assert found.dynamic_advice.endswith("1 graph instead of 8, and nothing compiled after the warm-up")
    assert sum(bucket.shapes for bucket in found.buckets) == 10
    assert all(list(bucket.padded_to) == ["sequence"] for bucket in found.buckets)


def test_a_counter_compiles_again_after_the_warm_up(model: Path) -> None:
    found = check(f"{model}:counter", "sequence=4|8")
    assert found.warm_after is None
    assert [run.compiles for run in found.after_warmup] == [1, 1]
    assert [run.shape["sequence"] for run in found.after_warmup] != [4, 8]
    late = found.after_warmup[0].recompiles[0]
    assert (late.cause, late.source) == ("module_attribute", "self.calls")


@pytest.mark.parametrize(
    ("target", "shapes", "says"),
    [("make", "height=4", "no factory that takes"), ("wider", "width=4|8", "makes another model for width 8")],
)
def test_sizes_that_cannot_be_are_refused(model: Path, target: str, shapes: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check(f"{model}:{target}", shapes)


def test_a_program_without_known_calls_has_no_result(model: Path) -> None:
    plan = Plan(source={}, configurations=(Configuration("default", backend="eager"),))
    spec = read_target(str(model), None, ())
    assert check_warmup(spec, plan, (Work(shape=(("sequence", 4),)),)).reason


@pytest.mark.slow
def test_a_second_start_finds_every_graph(model: Path) -> None:
    found = check(f"{model}:net", "sequence=4|8", "sequence=0:1", backend="inductor")
    second = found.second_start
    assert second is not None and second.warm, second
    assert second.hits >= 2 and (second.misses, second.bypasses) == (0, 0)
    assert second.warm_seconds < second.cold_seconds
