"""`explain` tries the settings that its advice names: what is told of them is what torch does with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import plain_python
from warm_starts import start_by_forks

from dynalyze.bench.run import Benchmarks
from dynalyze.bench.workers import Stopped
from dynalyze.cli.group import run
from dynalyze.trials.explain import tried
from dynalyze.trials.records import SettingTrial

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


STATIC = """
import torch

@torch.compile(backend="eager", dynamic=False)
def sized(x):
    return (x * 2).sum()

for n in range(5, 17):
    sized(torch.ones(n, 8))
"""


SLICES = """
import torch

@torch.compile(backend="eager")
def f(img):
    return (img * 2).sum()

data = torch.randn(44, 8)
for i in (1, 0, 2):
    img = data[16 * i : 16 * i + 16]
    f(img)
"""


REFUSED = """
import torch

@torch.compile
def smooths(x):
    positive = x[x > 0]
    return torch.nn.functional.conv1d(positive[None, None], torch.ones(1, 1, 2)).sum()

@torch.compile
def reads(x):
    return x * x.abs().max().item()

for _ in range(3):
    smooths(torch.tensor([1.0, -1.0, 2.0, 3.0]))
    reads(torch.ones(8))
"""


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`explain` of a program, without its benchmark and with all the time for trials."""
    monkeypatch.chdir(tmp_path)
    start_by_forks(monkeypatch, measures=True)
    monkeypatch.setattr("dynalyze.bench.measure.run_bench", lambda *_args, **_options: Benchmarks())
    monkeypatch.setattr("dynalyze.trials.explain._SHARE", 100.0)
    monkeypatch.setattr("dynalyze.trials.explain._MOST", 100.0)

    def explain(program: str, *options: str) -> dict[str, Any]:
        (tmp_path / "serve.py").write_text(program)
        outputs = ["--quiet-target", "--json", "r.json", "--markdown", "r.md"]
        assert run(["explain", "serve.py", *outputs, *options]) in (0, 1)
        found: dict[str, Any] = json.loads((tmp_path / "r.json").read_text())
        return found

    return explain


def test_what_is_told_of_settings_is_what_torch_does(explained: Callable[..., dict[str, Any]]) -> None:
    trials = explained(PROGRAM)["trials"]
    assert trials["calls"] == 9 and (trials["breaks"], trials["recompiles"]) == (2, 1)
    tried = {each["setting"].rpartition(".")[2]: each for each in trials["tried"]}
    line = PROGRAM.splitlines().index("    while y.numel() > 0:  # breaks next") + 1
    sizes, scalars = tried["capture_dynamic_output_shape_ops = True"], tried["capture_scalar_outputs = True"]
    assert [each["line"] for each in sizes["new"]] == [line] and len(sizes["ended"]) == 1
    assert (scalars["breaks"], scalars["new"], len(scalars["ended"])) == (1, [], 1)
    dynamic = tried["assume_static_by_default = False"]
    assert (dynamic["recompiles"], dynamic["ended"]) == (0, ["r1"])
    assert (trials["together"]["breaks"], trials["together"]["recompiles"]) == (1, 0)
    assert f"serve.py:{line} then" in " ".join(Path("r.md").read_text().split())
    for each in (scalars, sizes):  # And so says torch of the whole program.
        Path("set.py").write_text(f"import torch\nimport torch._dynamo\n{each['setting']}\n{PROGRAM}")
        ended = plain_python("set.py", cwd=Path.cwd(), env={"TORCH_LOGS": "graph_breaks"})
        lines = {int(found) for found in re.findall(r'set\.py", line (\d+), in (?:reads|chooses)\n', ended.stderr)}
        assert len(lines) == each["breaks"]


def test_a_setting_under_which_inductor_fails_is_not_advised(explained: Callable[..., dict[str, Any]]) -> None:
    report = explained(REFUSED)
    tried = {each["setting"].rpartition(".")[2]: each for each in report["trials"]["tried"]}
    sizes, scalars = tried["capture_dynamic_output_shape_ops = True"], tried["capture_scalar_outputs = True"]
    assert (sizes["ended"], sizes["compiled"]) == ([], False) and "Inductor" in sizes["problem"]
    assert scalars["compiled"] and len(scalars["ended"]) == 1 and report["trials"]["together"] is None
    told = {key: each for each in report["findings"] for key in each["evidence"]}
    assert told[scalars["against"][0]]["detail"]["config"] == scalars["setting"]
    of_sizes = told[sizes["against"][0]]
    assert of_sizes["detail"].get("config", "") == "" and "setting" not in of_sizes["advice"]
    Path("set.py").write_text(f"import torch\nimport torch._dynamo\n{sizes['setting']}\n{REFUSED}")
    assert "InductorError" in plain_python("set.py", cwd=Path.cwd(), check=False).stderr


def test_what_was_not_tried_for_want_of_time_is_told(
    explained: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[SettingTrial] = []

    def one(*given: Any) -> SettingTrial:
        if results:
            raise Stopped("out_of_time")
        results.append(tried(*given))
        return results[0]

    monkeypatch.setattr("dynalyze.trials.explain.tried", one)
    report = explained(PROGRAM)
    assert len(report["trials"]["tried"]) == 1
    assert any(note.startswith("Not all settings") for note in report["capture"]["notes"])


def test_sizes_that_the_program_keeps_static_are_not_tried_dynamic(
    explained: Callable[..., dict[str, Any]],
) -> None:
    report = explained(STATIC)
    line = STATIC.splitlines().index('@torch.compile(backend="eager", dynamic=False)') + 1
    assert [each["line"] for each in report["capture"]["static"]] == [line]
    (limit,) = [each for each in report["findings"] if each["rule"] == "recompile-limit"]
    assert f"`dynamic=False` at serve.py:{line}" in limit["advice"]
    trials = report["trials"]
    tried = {each["setting"].partition(" ")[0].rpartition(".")[2]: each for each in trials["tried"]}
    assert set(tried) == {"dynamic_sources", "recompile_limit"}
    assert tried["dynamic_sources"]["recompiles"] == 0 and len(tried["dynamic_sources"]["ended"]) == 8
    reached = next(each["id"] for each in report["recompiles"] if each["cause"] == "limit")
    assert (tried["recompile_limit"]["recompiles"], tried["recompile_limit"]["ended"]) == (11, [reached])


def test_what_compiles_again_once_a_size_may_vary_is_told_with_its_action(
    explained: Callable[..., dict[str, Any]],
) -> None:
    (finding,) = explained(SLICES)["findings"]
    marks, copies = "torch._dynamo.maybe_mark_dynamic(img, 0)", "img.clone()"
    assert finding["advice"].index(marks) < finding["advice"].index(copies)
    for more, recompiles in ((f"{marks}; f(img)", 1), (f"img = {copies}; {marks}; f(img)", 0)):
        Path("set.py").write_text(SLICES.replace("    f(img)\n", f"    {more}\n"))
        ended = plain_python("set.py", cwd=Path.cwd(), env={"TORCH_LOGS": "recompiles"})
        assert ended.stderr.count("Recompiling function") == recompiles


def test_calls_with_outside_effects_are_not_made_again_for_it(explained: Callable[..., dict[str, Any]]) -> None:
    writes = "    with open('rows', 'a') as rows:\n        rows.write('row\\n')\n    return x * x.abs().max().item()\n"
    report = explained(PROGRAM.replace("    return x * x.abs().max().item()\n", writes), "--allow-effects")
    assert report["graph_breaks"] and report.get("trials") is None
    assert Path("rows").read_text().count("row") == 3
