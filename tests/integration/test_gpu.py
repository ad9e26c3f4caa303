"""What torch.compile does on a GPU: CUDA graphs, Triton's kernels, attention, and a device that fails. Needs one.

The truth is torch's own: which kernel of attention it chooses, what it says of a graph that it does not record.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from program import Outcome, dynalyze

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="takes a GPU")

PROGRAMS = Path(__file__).parent / "gpu"
BACKENDS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}


def run(command: str, program: str, tmp_path: Path, *options: str) -> tuple[Outcome, dict[str, Any]]:
    """The program's run in an empty folder, and the report of it."""
    target = program
    if not program.startswith("hf:"):
        shutil.copy(PROGRAMS / f"{program}.py", tmp_path)
        target = f"{program}.py"
    ended = dynalyze(command, target, "--json", "r.json", "--html", "r.html", *options, cwd=tmp_path, real=True)
    return ended, json.loads((tmp_path / "r.json").read_text())


def found(report: dict[str, Any], rule: str) -> dict[str, Any]:
    return next(each for each in report["findings"] if each["rule"] == rule)


def rules(report: dict[str, Any]) -> set[str]:
    return {each["rule"] for each in report["findings"]}


@pytest.mark.parametrize("program", ["graphed", "training", "lora", "plain_break", "flex", "single_precision"])
def test_all_that_torch_compiled_is_heard(program: str, tmp_path: Path) -> None:
    ended, report = run("explain", program, tmp_path)
    assert (ended.status, report["outcome"]["status"]) == (0, "complete"), ended.stderr
    assert report["capture"]["listener_errors"] == []
    assert [each for each in report["graphs"] if each["cudagraph_skip"]] == []
    assert "triton" in {each["kind"] for each in report["kernels"]}


def test_flex_attention_is_one_kernel(tmp_path: Path) -> None:
    _, report = run("explain", "flex", tmp_path)
    assert [each["kind"] for each in report["kernels"]] == ["triton"]
    assert [(each["backend"], each["line"]) for each in report["attention"]] == [("flex", 16)]
    assert "flex-attention" not in rules(report)


def test_a_kernel_of_triton_has_its_lines(tmp_path: Path) -> None:
    _, report = run("explain", "mutated", tmp_path)
    (kernel,) = [each for each in report["kernels"] if each["kind"] == "triton"]
    assert {place["line"] for place in kernel["places"]} == {7, 8}


@pytest.mark.parametrize(
    ("program", "reason", "line"), [("cpu_tensor", "cpu device", 10), ("mutated", "mutated inputs", 7)]
)
def test_why_a_graph_is_no_cuda_graph(program: str, reason: str, line: int, tmp_path: Path) -> None:
    _, report = run("explain", program, tmp_path)
    (graph,) = report["graphs"]
    assert reason in graph["cudagraph_skip"]
    assert found(report, "cudagraph-skip")["location"]["line"] == line


def test_an_output_that_was_overwritten(tmp_path: Path) -> None:
    ended, report = run("explain", "overwritten", tmp_path)
    assert ended.status == 3
    assert found(report, "cudagraph-overwritten")["location"]["line"] == 9


def test_a_cuda_graph_for_each_size(tmp_path: Path) -> None:
    _, report = run("explain", "sizes", tmp_path)
    assert "cudagraph-memory" in rules(report)


def test_the_kernels_of_attention_are_those_that_torch_chooses(tmp_path: Path) -> None:
    _, report = run("explain", "attention", tmp_path)
    chosen = {name: BACKENDS[choice] for name, choice in json.loads((tmp_path / "chosen.json").read_text()).items()}
    assert {each["function"]: each["backend"] for each in report["attention"]} == chosen


def test_autocast_without_effect(tmp_path: Path) -> None:
    assert "autocast" in rules(run("explain", "autocast_twice", tmp_path)[1])


def test_a_check_that_fails_in_a_kernel(tmp_path: Path) -> None:
    ended, report = run("explain", "illegal", tmp_path)
    assert ended.status == 3 and len(report["graphs"]) == 1
    assert found(report, "gpu-kernel-failed")["location"]["line"] == 15


def test_a_device_without_memory_for_it(tmp_path: Path) -> None:
    ended, report = run("explain", "out_of_memory", tmp_path)
    assert ended.status == 3 and "out of memory" in report["outcome"]["message"]
    assert report["graphs"]


def test_a_model_of_transformers_in_bfloat16(tmp_path: Path) -> None:
    ended, report = run("explain", "hf:LlamaModel", tmp_path, "--device", "cuda", "--dtype", "bfloat16")
    assert (ended.status, report["outcome"]["status"]) == (0, "complete"), ended.stderr


def test_the_replays_of_a_benchmark(tmp_path: Path) -> None:
    _, report = run("bench", "graphed", tmp_path, "--configs", "default,reduce-overhead", "--pairs", "3")
    plain, graphed = [each for each in report["measurements"] if each["configuration"] != "eager"]
    assert (plain["status"], graphed["status"]) == ("valid", "valid")
    assert plain["counts"]["cudagraph_replays"] == 0 < graphed["counts"]["cudagraph_replays"]
    assert graphed["memory"]["kind"] == "cuda"
    # Between calls a graph keeps what it needs, which torch's allocator counts as free.
    assert graphed["memory"]["steady_peak"] >= 2**20


def test_effects_are_not_repeated(tmp_path: Path) -> None:
    run("bench", "effects", tmp_path)
    assert len((tmp_path / "lines.log").read_text().splitlines()) == 3


def test_a_change_is_verified(tmp_path: Path) -> None:
    _, report = run("fix", "plain_break", tmp_path)
    assert [each["status"] for each in report["fixes"]] == ["verified"]
