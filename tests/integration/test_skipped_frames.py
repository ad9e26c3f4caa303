"""Functions that torch leaves in eager in silence, on real torch; the truth is in each program."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from program import Outcome, explain
from shared_runs import made_once

Json = dict[str, Any]

# torch itself confirms what the advice rests on: `calls` counts how often compiled code ran.
STICKY = """
import torch
from torch.utils.flop_counter import FlopCounterMode

calls = 0

def count(graph, inputs):
    def run(*values):
        global calls
        calls += 1
        return graph.forward(*values)
    return run

@torch.compile(backend=count)
def score(x):
    return x @ x

def calls_of(number):
    before = calls
    for _ in range(number):
        score(x)
    return calls - before

x = torch.randn(4, 4)
print("before the mode:", calls_of(2))
with torch.compiler.set_stance("force_eager"), FlopCounterMode(display=False):
    print("in the mode under the stance:", calls_of(2))
print("after it:", calls_of(2))
with FlopCounterMode(display=False):
    print("in the mode:", calls_of(2))
print("after the mode:", calls_of(2))
torch._dynamo.reset()
print("after reset:", calls_of(2))
"""

MODES = """
import torch
from torch.utils.flop_counter import FlopCounterMode


def norm(x):
    return x / x.norm()


@torch.compile(backend="eager")
def score(x):
    return norm(x) @ x


@torch.compile(backend="eager")
def other(x):
    return norm(x) + 1


x = torch.randn(4, 4)
{first_call}
with FlopCounterMode(display=False):
    score(x)
score(x)
"""


def run(folder: Path, source: str, name: str = "serve.py", *, real: bool = False) -> tuple[Outcome, Json]:
    (folder / name).write_text(dedent(source).lstrip(), encoding="utf-8")
    ended, report = explain(name, "--no-bench", cwd=folder, real=real)
    assert ended.status == 0, ended.stderr[-2000:]
    return ended, report


def skipped(report: Json) -> dict[tuple[str, str], Json]:
    return {(each["location"]["function"], each["reason"]): each for each in report["skipped_frames"]}


def found(report: Json, rule: str = "skipped-function") -> list[Json]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


def test_a_dispatch_mode_keeps_functions_from_being_compiled(tmp_path: Path) -> None:
    ended, report = run(tmp_path, MODES.format(first_call="other(x)"))
    told = skipped(report)
    assert set(told) == {("score", "dispatch_mode"), ("norm", "dispatch_mode")}
    only = told["score", "dispatch_mode"]
    assert (only["entry"], only["tensors"], only["count"]) == (True, True, 1)
    assert only["location"]["code"] == "def score(x):"
    (finding,) = found(report)
    assert finding["title"].startswith("score runs in eager")
    assert finding["location"]["line"] == only["location"]["line"] == 10
    assert set(finding["evidence"]) == {each["id"] for each in told.values()}
    assert "left in eager without a graph break" in " ".join(ended.stdout.split())
    assert report["graph_breaks"] == []


@pytest.mark.slow
def test_the_advice_against_it_works(tmp_path: Path) -> None:
    ended, report = run(tmp_path, STICKY)
    told = [line.partition(": ") for line in ended.stderr.splitlines() if "the mode" in line or "after" in line]
    assert {what: int(number) for what, _, number in told} == {
        "before the mode": 2, "in the mode under the stance": 0, "after it": 2, "in the mode": 0, "after the mode": 0,
        "after reset": 2,
    }  # fmt: skip
    assert list(skipped(report)) == [("score", "dispatch_mode")]
    step = found(report)[0]["advice"]
    assert "torch._dynamo.reset()" in step
    (advised,) = re.findall(r"`with (torch.compiler.set_stance\(.+?\)):`", step)
    mended = MODES.format(first_call="other(x)").replace("with FlopCounter", f"with {advised}, FlopCounter")
    _, report = run(tmp_path, mended, "mended.py")
    assert (report["skipped_frames"], report["findings"]) == ([], [])


# A module with the name of a package on the skip list of torch, what is disabled, and what is of no interest.
SEVERAL = """
import contextlib
import torch
import tree


@torch.compile(backend="eager")
def total(x):
    return tree.leaves(x) + 1


@torch.compiler.disable
def slow(x):
    return x.sin()


class Net(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x.cos()


@torch.compile(backend="eager")
def plain(x):
    return x + 1


def count(n):
    return n + 1


def same(x):
    return x


@contextlib.contextmanager
def nothing():
    yield


@torch.compile(backend="eager")
def run(x):
    with nothing():
        torch._dynamo.graph_break()
    return x * count(3)


total(torch.ones(3))
torch.compile(slow, backend="eager")(torch.ones(3))
torch.compile(Net(), backend="eager")(torch.ones(3))
plain(torch.ones(3))
torch.compile(count, backend="eager")(3)
torch.compile(same, backend="eager")(torch.ones(3))
run(torch.ones(3))
torch.nn.functional.pad(torch.ones(3), (1, 1))
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Json:
    def explained(folder: Path) -> Json:
        (folder / "tree.py").write_text("def leaves(x):\n    return x.sin() + x.cos()\n")
        return run(folder, SEVERAL, real=True)[1]  # torch reads sys.path for its list at import.

    return made_once(tmp_path_factory, "skipped-frames", explained)


def test_a_module_with_the_name_of_a_package_on_the_skip_list(several: Json) -> None:
    """`tree` is on torch's list; the break that a traced call gives is told once."""
    broken = [each["location"]["function"] for each in several["graph_breaks"]]
    assert (broken.count("total"), broken.count("leaves")) == (1, 0)
    assert {key for key in skipped(several) if "skip_list" in key or "leaves" in key} == {("leaves", "skip_list")}


def test_a_disabled_function_given_to_torch_compile(several: Json) -> None:
    told = skipped(several)
    assert {key for key in told if key[1] == "disabled"} == {("slow", "disabled"), ("forward", "disabled")}
    line = SEVERAL.lstrip().splitlines().index("def slow(x):") + 1
    assert told["slow", "disabled"]["location"]["line"] == line
    (finding,) = found(several)
    assert "torch.compiler.disable" in finding["title"]
    assert set(finding["evidence"]) <= {told[key]["id"] for key in told if key[1] == "disabled"}


def test_harmless_skips_are_facts_and_no_findings(several: Json) -> None:
    told = skipped(several)
    assert {("count", "no_tensors"), ("same", "no_tensors")} <= set(told)
    assert {reason for _, reason in told} == {"no_tensors", "disabled", "skip_list"}
    files = {Path(each["location"]["file"]).name for each in told.values()}
    assert files == {"serve.py", "tree.py"}, "no helper of a library"
