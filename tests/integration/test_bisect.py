"""The whole search in processes of its own: planted in a stage of torch, found there, with a script that shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from warm_starts import start_by_forks

from dynalyze.bench.bisect import bisect_suspicious
from dynalyze.bench.measure import rebuilt_source
from dynalyze.bench.plan import Plan
from dynalyze.capture.bench.protocol import Configuration, Phase, Work
from dynalyze.launch.spec import read_target
from dynalyze.report import Outcome, Report
from dynalyze.report.audit import Bisection
from dynalyze.report.measurements import Accuracy, AccuracyVerdict

_HERE = Path(__file__).parent

_OTHERWISE_UNDER_COMPILE = """
import torch
from bisect_models import Block, Blocks

class Odd(Block):
    def forward(self, x):
        x = super().forward(x)
        return x * 1.5 if torch.compiler.is_compiling() else x

def make():
    torch.manual_seed(0)
    model = Blocks(5)
    model.layers[3] = Odd(64)
    return model.eval(), (torch.randn(2, 16, 64),)
"""


_NAN_IN_A_DECOMPOSITION = """
import torch
from torch._inductor import decomposition
from bisect_models import blocks

decomposition.decompositions[torch.ops.aten.gelu.default] = lambda x, approximate="none": torch.sqrt(x)

def make():
    model, x = blocks(2)
    return model, (x,)
"""

_BACKEND = """
from planted_backends import InGraph

def wrong(graph, inputs):
    return InGraph("softmax", 0, lambda found: found * 1.5)(graph, inputs)
"""
_RIGHT = """
from bisect_models import blocks

def make():
    model, x = blocks(2)
    return model, (x,)
"""


def searched(
    folder: Path,
    program: str,
    backend: str,
    verdict: AccuracyVerdict,
    monkeypatch: pytest.MonkeyPatch,
    phase: Phase = "forward",
) -> list[Bisection]:
    """The search in a program whose answers were judged so. Its modules lie beside it."""
    for name in ("bisect_models", "planted_backends"):
        (folder / f"{name}.py").write_text((_HERE / f"{name}.py").read_text())
    (folder / "faulty.py").write_text(_BACKEND)
    (folder / "program.py").write_text(program)
    monkeypatch.chdir(folder)
    start_by_forks(monkeypatch, measures=True)
    target = read_target("program.py:make", None, ())
    chosen = (Configuration("default", backend=backend),)
    plan = Plan(rebuilt_source(target), chosen, works=(Work(phase=phase),), timeout=600, total=600, quiet=True)
    report = Report("0", "", [], {"device": "cpu"}, target.described(), Outcome("complete"))
    report.accuracy = [Accuracy("default", phase, verdict=verdict)]
    found = bisect_suspicious(report, target, plan, folder / "kept")
    assert report.outcome.status == "complete"
    return found


def shows(script: str, tmp_path: Path) -> bool:
    """Whether it does by itself: in a new process, from another folder, told by its last line and its exit status."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = Path(script).resolve()
    ran = subprocess.run([sys.executable, where], cwd=elsewhere, capture_output=True, text=True, check=False)
    assert ("error of eager" in ran.stdout or "NaN" in ran.stdout) and ran.stdout.splitlines()[-1].startswith("WRONG")
    return ran.returncode == 1


def test_a_module_that_computes_otherwise_under_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = searched(tmp_path, _OTHERWISE_UNDER_COMPILE, "aot_eager", "suspicious", monkeypatch)
    assert [run.stage for run in found.stages] == ["dynamo"] and not found.op and not found.repro
    (place,) = found.asks
    assert (found.stage, found.file) == ("program", place.file)
    assert place.file.endswith("program.py") and place.function == "forward"
    assert place.code == "return x * 1.5 if torch.compiler.is_compiling() else x"


@pytest.mark.slow
def test_nan_of_a_decomposition_of_the_programs_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = searched(tmp_path, _NAN_IN_A_DECOMPOSITION, "inductor", "suspicious", monkeypatch)
    assert [(run.stage, run.verdict) for run in found.stages][-1] == ("decompositions", "suspicious")
    assert (found.stage, found.module, found.op) == ("decompositions", "layers.0", "torch.nn.functional.gelu")
    assert found.nonfinite > 0 and (found.part, found.applied) == ("decomposition", "aten.gelu.default")
    assert not found.repro and found.reason == "No script shows the fault outside of the program."


@pytest.mark.slow
def test_a_wrong_backend_and_a_script_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = searched(tmp_path, _RIGHT, "faulty:wrong", "suspicious", monkeypatch)
    assert (found.stage, found.module, found.op) == ("backend", "layers.0.attention", "torch.softmax")
    assert found.reduced is not None and found.reduced.operations == 1 < found.reduced.operations_before
    assert shows(found.repro, tmp_path)
