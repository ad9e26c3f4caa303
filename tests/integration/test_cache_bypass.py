"""What goes past torch's caches on real torch and Inductor, and that the advice against it works."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from program import explain

Json = dict[str, Any]

HEAD = """
import torch
import torch._functorch.config, torch._inductor.config as config


"""
FUNCTIONS = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

@torch.compiler.allow_in_graph
def mine(x):
    return x * 3

@torch.compile
def doubles(x):
    return Double.apply(x) + 1

@torch.compile
def calls(x):
    return mine(x) + 1

@torch.compile
def chooses(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

doubles(torch.ones(4, requires_grad=True)).sum().backward()
calls(torch.ones(4))
chooses(torch.ones(4))
"""
INSIDE = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

@torch.compile
def doubles(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = x @ x
    return Double.apply(h.float())

doubles(torch.ones(4, 4, requires_grad=True)).sum().backward()
"""
CUSTOM_OP = """
@torch.library.custom_op("mine::triple", mutates_args=())
def mine(x: torch.Tensor) -> torch.Tensor:
    return x * 3

@mine.register_fake
def _(x):
    return torch.empty_like(x)

@torch.compile
def calls(x):
    return mine(x) + 1

calls(torch.ones(4))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of kernels that several tests may share: what goes past the caches does so whatever they hold."""
    return tmp_path_factory.mktemp("cache")


def run(folder: Path, source: str, cache: Path) -> Json:
    name = "serve.py"
    (folder / name).write_text((HEAD + dedent(source)).lstrip(), encoding="utf-8")
    ended, report = explain(name, cwd=folder, env={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert ended.status == 0, ended.stderr[-2000:]
    return report


def bypassed(report: Json) -> dict[str, set[tuple[str, str]]]:
    return {
        each["function"]: {(bypass["cache"], bypass["reason"]) for bypass in each["cache_bypasses"]}
        for each in report["compilations"]
    }


def found(report: Json) -> list[Json]:
    return [finding for finding in report["findings"] if finding["rule"] == "cache-bypass"]


@pytest.mark.slow
def test_functions_in_the_graph(tmp_path: Path, cache: Path) -> None:
    report = run(tmp_path, FUNCTIONS, cache)
    assert bypassed(report) == {
        "doubles": {("autograd", "autograd_function")},
        "calls": {("autograd", "function")},
        "chooses": {("autograd", "higher_order"), ("fx_graph", "higher_order")},
    }
    told = {finding["title"].partition(" ")[0]: finding for finding in found(report)}
    assert {name: finding["severity"] for name, finding in told.items()} == {
        "doubles": "info", "calls": "info", "chooses": "warning",
    }  # fmt: skip
    setting = told["doubles"]["advice"].partition("`")[2].partition("`")[0]
    allowed = run(tmp_path, f"{setting}\n{FUNCTIONS}", cache)
    assert bypassed(allowed)["doubles"] == set()
    assert bypassed(run(tmp_path, CUSTOM_OP, tmp_path / "empty")) == {"calls": set()}


def test_each_cause_of_one_graph_is_told_at_its_line_and_its_settings_end_it(tmp_path: Path) -> None:
    """torch names the first alone; a context has no line of its own in the graph."""
    source = (HEAD + dedent(INSIDE)).lstrip().splitlines()
    cache = tmp_path / "cache"
    report = run(tmp_path, INSIDE, cache)
    told = [finding["location"]["line"] for finding in found(report)]
    assert [source[line - 1].strip().partition("(")[0] for line in told] == [
        "with torch.autocast",
        "return Double.apply",
    ]
    assert all(" at 0x" not in each["advice"] for each in report["findings"])
    inside, function = found(report)
    settings = inside["detail"]["config"] + "\n" + function["advice"].partition("`")[2].partition("`")[0]
    for state in ("miss", "hit"):
        allowed = run(tmp_path, f"{settings}\n{INSIDE}", cache)
        assert bypassed(allowed) == {"doubles": set()}
        assert [each["state"] for each in allowed["caches"]["keys"] if each["cache"] == "autograd"] == [state]


CUSTOM_PASS = """
def my_pass(graph):
    pass

torch._inductor.config.post_grad_custom_post_pass = my_pass

@torch.compile
def first(x):
    return x.sin() + 1

@torch.compile
def second(x):
    return x.cos() + 1

first(torch.ones(4))
second(torch.ones(4))
"""


@pytest.mark.slow
def test_a_custom_pass_and_the_advice_against_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    report = run(tmp_path, CUSTOM_PASS, cache)
    both = {("autograd", "custom_pass"), ("fx_graph", "custom_pass")}
    assert bypassed(report) == {"first": both, "second": both}
    (finding,) = found(report)
    assert (finding["severity"], finding["evidence"]) == ("warning", ["0/0", "1/0"])
    assert finding["impact"]["compile_seconds"] == pytest.approx(
        sum(each["seconds"]["total"] for each in report["compilations"])
    )
    example = finding["detail"]["example"]
    assert example["before"] in CUSTOM_PASS
    mended = CUSTOM_PASS.replace(example["before"], example["after"])
    run(tmp_path, mended, cache)
    again = run(tmp_path, mended, cache)
    assert found(again) == []
    assert all(each["cache"].get("inductor_fx_local_cache_hit") == 1 for each in again["compilations"])


OLD_CALLS = """
import math
import numpy as np

@torch.compile
def scaled(x):
    return x * torch.FloatTensor([0.5])

@torch.compile
def parts(x):
    return torch.cat((x + 1).chunk(int(np.ceil(x.shape[0] / 3))))

scaled(torch.ones(4))
parts(torch.ones(7, 2))
"""


@pytest.mark.slow
def test_old_constructors_and_functions_of_numpy_have_a_form_that_caches_know(tmp_path: Path) -> None:
    report = run(tmp_path, OLD_CALLS, tmp_path / "cache")
    old, of_numpy = found(report)
    assert bypassed(report) == {name: {("autograd", "function")} for name in ("scaled", "parts")}
    assert "`torch.tensor(..., dtype=torch.float32)`" in old["advice"] and "`math.ceil`" in of_numpy["advice"]
    assert not old["detail"]["config"] and not of_numpy["detail"]["config"]
    mended = OLD_CALLS.replace("FloatTensor([0.5])", "tensor([0.5], dtype=torch.float32)").replace(
        "np.ceil", "math.ceil"
    )
    assert bypassed(run(tmp_path, mended, tmp_path / "cache")) == {"scaled": set(), "parts": set()}
