"""Graphs and kernels of real programs. The programs count for themselves, with plain torch and FX."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from program import explain
from shared_runs import made_once

# Its backend counts the nodes of each graph as FX holds them, before AOTAutograd and after, and runs them in eager.
COUNTING = """
    import json, torch
    from torch._dynamo.backends.common import aot_autograd

    counts = []

    def counted(kind):
        def compiler(gm, inputs):
            calls = [node for node in gm.graph.nodes if node.op.startswith("call")]
            counts.append([kind, len(calls)])
            return gm.forward
        return compiler

    def backend(gm, inputs):
        counted("dynamo")(gm, inputs)
        aot = aot_autograd(
            fw_compiler=counted("forward"), bw_compiler=counted("backward"), inference_compiler=counted("inference")
        )
        return aot(gm, inputs)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 16)
            self.norm = torch.nn.LayerNorm(16)
            self.register_buffer("scale", torch.ones(16))

        def forward(self, x, n):
            hidden = torch.nn.functional.gelu(self.inner(x)) * n
            hidden += 1
            print("between")
            return self.norm(hidden).softmax(-1) * self.scale

    model = torch.compile(Net(), backend=backend)
    model(torch.randn(5, 8), 2).sum().backward()
    with torch.no_grad():
        model(torch.randn(7, 8), 2)
    with open("counts.json", "w") as out:
        json.dump(counts, out)
"""

INDUCTOR = """
    import torch

    @torch.compile
    def pointwise(x):
        first = x.sin()
        second = first.cos() + first
        return second * 2

    @torch.compile
    def projected(x, w):
        hidden = torch.mm(x, w)
        return hidden.relu()

    @torch.compile
    def ordered(x):
        shifted = x + 1
        return torch.sort(shifted)[0]

    x = torch.randn(16, 8)
    pointwise(x)
    projected(x, torch.randn(8, 8))
    ordered(x)
"""


def program(folder: Path, text: str) -> Path:
    file = folder / "model.py"
    file.write_text(textwrap.dedent(text))
    return file


def by_function(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {graph["location"]["function"]: graph for graph in report["graphs"]}


def kernels_of(report: dict[str, Any], graph: dict[str, Any]) -> list[dict[str, Any]]:
    return [kernel for kernel in report["kernels"] if kernel["graph"] == graph["id"]]


def ops_at(graph: dict[str, Any]) -> dict[str, int]:
    return {f"{stage['stage']} {stage['direction']}".strip(): stage["ops"] for stage in graph["stages"]}


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[Any]]:
    """The report of COUNTING, and what it counted."""

    def counted(folder: Path) -> tuple[dict[str, Any], list[Any]]:
        _, report = explain(program(folder, COUNTING), cwd=folder)
        return report, json.loads((folder / "counts.json").read_text())

    return made_once(tmp_path_factory, "counting", counted)


def test_every_stage_has_the_number_that_fx_holds(counting: tuple[dict[str, Any], list[Any]]) -> None:
    report, counts = counting
    told = [
        ["dynamo" if stage["stage"] == "dynamo" else stage["direction"], stage["ops"]]
        for graph in report["graphs"]
        for stage in graph["stages"]
    ]
    assert sorted(told) == sorted(counts)
    assert len(report["graphs"]) >= 4  # Two parts of forward, for two modes of autograd.
    for graph in report["graphs"]:
        assert graph["ops"] == ops_at(graph)["dynamo"] == sum(graph["histogram"].values())
    assert report["kernels"] == []


def test_inputs_are_those_of_the_module(counting: tuple[dict[str, Any], list[Any]]) -> None:
    report, _ = counting
    inputs = {item["source"]: item for item in report["graphs"][0]["inputs"]}
    assert {name: (item["kind"], item["shape"]) for name, item in inputs.items()} == {
        "x": ("input", [5, 8]),
        "self.inner.weight": ("parameter", [16, 8]),
        "self.inner.bias": ("parameter", [16]),
    }
    assert all((item["dtype"], item["device"]) == ("float32", "cpu") for item in inputs.values())
    assert inputs["self.inner.weight"]["bytes"] == 16 * 8 * 4
    buffers = [item["source"] for item in report["graphs"][1]["inputs"] if item["kind"] == "buffer"]
    assert buffers == ["self.scale"]


@dataclass
class Twice:
    """The reports and pages of a run with an empty cache and of one more."""

    reports: list[dict[str, Any]]
    pages: list[str]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    return made_once(tmp_path_factory, "inductor-twice", explained_twice)


def explained_twice(folder: Path) -> Twice:
    made = Twice([], [])
    file, page = program(folder, INDUCTOR), folder / "page.html"
    for _ in range(2):
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        made.reports.append(explain(file, "--html", page, cwd=folder, env=caches)[1])
        made.pages.append(page.read_text())
    return made


@pytest.fixture(scope="module")
def inductor(twice: Twice) -> list[dict[str, Any]]:
    return twice.reports


@pytest.mark.parametrize("run", [0, 1], ids=["cold", "cached"])
def test_elementwise_operations_become_one_kernel(inductor: list[dict[str, Any]], run: int) -> None:
    report = inductor[run]
    graph = by_function(report)["pointwise"]
    assert ops_at(graph) == {"dynamo": 4, "aten inference": 4, "post_grad inference": 4, "kernels inference": 1}
    (kernel,) = kernels_of(report, graph)
    assert (kernel["kind"], kernel["calls"]) == ("cpp", 1)
    assert set(kernel["ops"]) == {"aten.sin", "aten.cos", "aten.add", "aten.mul"}


@pytest.mark.parametrize("run", [0, 1], ids=["cold", "cached"])
def test_a_matrix_product_is_a_library_call(inductor: list[dict[str, Any]], run: int) -> None:
    report = inductor[run]
    product, relu = kernels_of(report, by_function(report)["projected"])
    assert (product["name"], product["kind"], product["ops"]) == ("mm", "extern", ["aten.mm"])
    assert [place["code"] for place in product["places"]] == ["hidden = torch.mm(x, w)"]
    assert (relu["kind"], relu["ops"]) == ("cpp", ["aten.relu"])


@pytest.mark.parametrize("run", [0, 1], ids=["cold", "cached"])
def test_a_sort_falls_back_and_is_told(inductor: list[dict[str, Any]], run: int) -> None:
    report = inductor[run]
    graph = by_function(report)["ordered"]
    shifted, sort = kernels_of(report, graph)
    assert (shifted["kind"], shifted["ops"]) == ("cpp", ["aten.add"])
    assert (sort["kind"], sort["ops"]) == ("fallback", ["aten.sort"])
    (finding,) = [finding for finding in report["findings"] if finding["rule"] == "fallback-kernels"]
    assert (finding["severity"], finding["evidence"]) == ("info", [graph["id"]])
    assert "`sort`" in finding["title"]
    assert finding["location"]["code"] == "return torch.sort(shifted)[0]"


def test_the_code_of_every_stage_is_there(inductor: list[dict[str, Any]]) -> None:
    for graph in inductor[0]["graphs"]:
        code = {each["name"]: each["text"] for each in graph["code"]}
        assert list(code) == ["computation_graph.py", "aot_inference.py", "post_grad.py", "output_code.py"]
        assert "def forward(" in code["computation_graph.py"]
        assert "torch.ops.aten." in code["aot_inference.py"]
        assert "async_compile" in code["output_code.py"]


@pytest.mark.parametrize("run", [0, 1], ids=["cold", "cached"])
def test_the_page_shows_the_way_down(twice: Twice, run: int) -> None:
    graph = by_function(twice.reports[run])["pointwise"]
    row = twice.pages[run].partition(f'<tbody class="graph" id="{graph["id"]}">')[2].partition("</tr>")[0]
    assert re.findall(r'<td class="amount">([\d,]+)</td>', row) == ["4", "4", "4", "1"]


SAVING = """
    import json, torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = torch.nn.Linear(8, 16)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, x):
            hidden = torch.nn.functional.gelu(self.wide(x))  # saves what gelu gets, in place of what it gives
            return self.norm(hidden).softmax(-1)

    net = Net()
    x = torch.randn(5, 8)
    out = torch.compile(net, backend="aot_eager")(x)
    there = {tensor.data_ptr() for tensor in (x, *net.parameters())}
    kept = [tensor for tensor in out.grad_fn.saved_tensors if tensor.data_ptr() not in there]
    with open("kept.json", "w") as file:
        json.dump([[list(tensor.shape), tensor.nbytes] for tensor in kept], file)
    out.sum().backward()
"""


def test_what_is_kept_for_backward_is_what_autograd_holds(tmp_path: Path) -> None:
    (tmp_path / "saving.py").write_text(textwrap.dedent(SAVING))
    _, report = explain("saving.py", cwd=tmp_path)
    held = json.loads((tmp_path / "kept.json").read_text())
    (graph,) = report["graphs"]
    assert held
    assert sorted([each["shape"], each["bytes"]] for each in graph["saved"]) == sorted(held)
    assert graph["saved_bytes"] == sum(size for _, size in held)
    assert graph["saved_omitted"] == 0
    code = SAVING.splitlines()
    lines = {code[each["place"]["line"] - 1].split("#")[0].strip() for each in graph["saved"]}
    assert lines == {
        "hidden = torch.nn.functional.gelu(self.wide(x))", "return self.norm(hidden).softmax(-1)",
    }  # fmt: skip
