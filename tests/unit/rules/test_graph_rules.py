"""The diagnoses that graphs, kernels and the memory of a training step give rise to."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import Finding, Graph, Kernel, KernelKind, Location, Outcome
from dynalyze.report.measurements import KeptLine, StepMemory
from sample_measurements import measured, speedup
from sample_reports import clean_report, empty_report, found_by, line_of


def fallback(name: str, graph: str = "g1", calls: int = 1, kind: KernelKind = "fallback") -> Kernel:
    return Kernel(graph, name, kind, calls=calls, places=[line_of(43, 20, 44)])


def test_all_fallbacks_are_one_finding() -> None:
    report = empty_report()
    report.kernels = [
        fallback("aten.sort.stable", calls=2), fallback("aten.sort.default", "g2"), fallback("aten.cumsum.default"),
        fallback("addmm", "g3", kind="extern"),
    ]  # fmt: skip
    (finding,) = found_by(report, "fallback-kernels")
    assert finding.title == "Inductor calls eager kernels for `sort`, `cumsum`"
    assert (finding.severity, finding.evidence) == ("info", ["g1", "g2"])
    assert finding.location == line_of(43, 20, 44)
    assert finding.advice.startswith("4 places in the compiled code call ATen")


def test_without_fallbacks_nothing_is_said() -> None:
    report = empty_report()
    report.kernels = [
        fallback("addmm", kind="extern"), fallback("cpp_fused_add_0", kind="cpp"),
        fallback("aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ]  # fmt: skip
    assert found_by(report, "fallback-kernels") == []


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("skipping cudagraphs due to mutated inputs (1 instances). Found from : \n   File x", "Return the new value"),
        ("skipping cudagraphs due to cpu device (arg1_1). Found from : \n   File x", "Move every tensor"),
        ("skipping cudagraphs due to multiple devices: cpu, cuda:0", "one device"),
        ("skipping cudagraphs due to graph with symbolic shapes inputs and config.", "Pad to a few"),
        ("skipping cudagraphs due to disabling cudagraphs due to incompatible op aten.nonzero", "Move the operation"),
        ("something that no version said yet", "Remove what it names"),
    ],
)
def test_a_skipped_cuda_graph(reason: str, advice: str) -> None:
    report = empty_report()
    report.graphs = [Graph("g1", "0/0", cudagraph_skip=reason), Graph("g2", "1/0")]
    (finding,) = found_by(report, "cudagraph-skip")
    assert (finding.severity, finding.evidence) == ("warning", ["g1"])
    assert advice in finding.advice
    assert "Found from" not in finding.advice and "File x" not in finding.advice


def test_the_line_that_keeps_a_cuda_graph_off() -> None:
    said = (
        'skipping cudagraphs due to mutated inputs (1 instances). Found from : \n   File "/net.py", line 7, in add\n  x'
    )
    report = empty_report()
    report.graphs = [Graph("g1", "0/0", location=Location("/net.py", 1), cudagraph_skip=said)]
    assert found_by(report, "cudagraph-skip")[0].location == Location("/net.py", 7, function="add")


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("CUDA error: device-side assert triggered", "on the CPU"),
        ("CUDA error: an illegal memory access was encountered", "aot_eager"),
    ],
)
def test_a_kernel_that_failed_on_the_gpu(said: str, advice: str) -> None:
    report = empty_report()
    at = Location("/net.py", 15)
    report.outcome = Outcome("failed", f"The program raised torch.AcceleratorError: {said}", 1, raised_at=at)
    (finding,) = found_by(report, "gpu-kernel-failed")
    assert (finding.severity, finding.location) == ("error", at)
    assert "CUDA_LAUNCH_BLOCKING=1" in finding.advice and advice in finding.advice


MEGABYTE = 1_000_000
FIRST, SECOND = Location("model.py", 12), Location("model.py", 13)


def found_of(memory: StepMemory | None, **changes: Any) -> list[Finding]:
    report = clean_report()
    report.measurements = [measured("default", 20.0, speedup(1.8, 1.7, 1.9), step_memory=memory, **changes)]
    return found_by(report, "step-memory")


def memory(kept: float, peak: float, *lines: KeptLine, peak_in: Any = "backward") -> StepMemory:
    """Against 10 MB kept and a peak of 20 MB in eager."""
    return StepMemory(
        10 * MEGABYTE, int(kept * MEGABYTE), 20 * MEGABYTE, int(peak * MEGABYTE), "backward", peak_in, list(lines)
    )


def test_a_step_that_keeps_more_names_the_lines_that_do() -> None:
    less = KeptLine(FIRST, 6 * MEGABYTE, 4 * MEGABYTE)
    more = KeptLine(SECOND, 4 * MEGABYTE, 14 * MEGABYTE)
    (finding,) = found_of(memory(18, 28, less, more))
    assert finding.title == "default keeps 18.0 MB for backward, 1.8 times eager's 10.0 MB"
    assert "model.py:13 (10.0 MB more)" in finding.advice and "model.py:12" not in finding.advice
    assert finding.location == SECOND
    assert finding.detail is not None and "activation_memory_budget" in finding.detail.config
    assert "not tried" in finding.detail.why


def test_a_peak_in_a_backward_that_computes_again_names_what_it_computes() -> None:
    again = KeptLine(SECOND, 0, 0, recomputed=["aten.addmm", "aten.exp"])
    (finding,) = found_of(memory(10, 50, again))
    (nowhere,) = found_of(memory(10, 50, KeptLine(None, recomputed=["aten.addmm"])))
    assert nowhere.advice == finding.advice and nowhere.location is None
    assert finding.title == "The peak of default is 50.0 MB, 2.5 times eager's 20.0 MB"
    assert "graph_break()" in finding.advice
    assert finding.detail is not None and "2 operations again, most at model.py:13 (2)" in finding.detail.why
    assert not finding.detail.config, "the budget does not bound the peak"


@pytest.mark.parametrize("peak_in", ["forward", "backward"])
def test_another_peak_is_told_without_a_reason(peak_in: str) -> None:
    (finding,) = found_of(memory(10, 50, peak_in=peak_in))
    assert "graph_break" not in finding.advice
    assert finding.detail is not None and f"in the {peak_in}" in finding.detail.why


@pytest.mark.parametrize(
    "near",
    [
        None,
        StepMemory(problem="out of memory"),
        memory(12, 24),
        StepMemory(100, 1_000_050, 100, 1_000_050),
        memory(5, 10),
    ],
)
def test_what_is_no_more_or_was_not_measured_is_not_told(near: StepMemory | None) -> None:
    assert found_of(near) == []
