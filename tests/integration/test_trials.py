"""`explain` tries the settings that its advice names: what is told of them is what torch does with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from program import plain_python
from warm_starts import start_by_forks

from dynalyze.bench.run import Benchmarks
from dynalyze.cli.group import run

PROGRAM = """
import torch

@torch.compile(backend="eager")
def reads(x):
    return x * x.abs().max().item()

@torch.compile(backend="eager")
def chooses(x):
    y = x[x > 0]
    while y.numel() > 0:  # breaks next
        y = y[1:]
    return x + 1

@torch.compile(backend="eager")
def sized(x):
    return (x * 2).sum()

for n in (5, 6, 7):
    reads(torch.ones(8))
    chooses(torch.tensor([1.0, -1.0, 2.0]))
    sized(torch.ones(n, 8))
"""


def test_what_is_told_of_settings_is_what_torch_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "serve.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    start_by_forks(monkeypatch, measures=True)
    monkeypatch.setattr("dynalyze.bench.measure.run_bench", lambda *_args, **_options: Benchmarks())
    monkeypatch.setattr("dynalyze.trials.explain._SHARE", 100.0)
    assert run(["explain", "serve.py", "--quiet-target", "--json", "r.json"]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    trials = report["trials"]
    assert trials["calls"] == 9 and (trials["breaks"], trials["recompiles"]) == (2, 1)
    tried = {each["setting"].rpartition(".")[2]: each for each in trials["tried"]}
    line = PROGRAM.splitlines().index("    while y.numel() > 0:  # breaks next") + 1
    sizes, scalars = tried["capture_dynamic_output_shape_ops = True"], tried["capture_scalar_outputs = True"]
    assert [each["line"] for each in sizes["new"]] == [line] and len(sizes["ended"]) == 1
    assert (scalars["breaks"], scalars["new"], len(scalars["ended"])) == (1, [], 1)
    dynamic = tried["assume_static_by_default = False"]
    assert (dynamic["recompiles"], dynamic["ended"]) == (0, ["r1"])
    assert (trials["together"]["breaks"], trials["together"]["recompiles"]) == (1, 0)
    said = capfd.readouterr().out
    assert f"serve.py:{line} then" in " ".join(said.split())
    for each in (scalars, sizes):  # And so says torch of the whole program.
        (tmp_path / "set.py").write_text(f"import torch\nimport torch._dynamo\n{each['setting']}\n{PROGRAM}")
        ended = plain_python("set.py", cwd=tmp_path, env={"TORCH_LOGS": "graph_breaks"})
        lines = {int(found) for found in re.findall(r'set\.py", line (\d+), in (?:reads|chooses)\n', ended.stderr)}
        assert len(lines) == each["breaks"]
