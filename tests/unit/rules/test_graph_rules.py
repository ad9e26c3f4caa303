"""The diagnoses that graphs and kernels give rise to."""

from __future__ import annotations

import pytest

from dynalyze.report import Finding, Graph, Kernel, KernelKind, Location, Outcome, Report
from dynalyze.rules.rule import judge
from sample_reports import empty_report, line_of


def findings_of(report: Report, rule: str) -> list[Finding]:
    return [finding for finding in judge(report) if finding.rule == rule]


def fallback(name: str, graph: str = "g1", calls: int = 1, kind: KernelKind = "fallback") -> Kernel:
    return Kernel(graph, name, kind, calls=calls, places=[line_of(43, 20, 44)])


def test_all_fallbacks_are_one_finding() -> None:
    report = empty_report()
    report.kernels = [
        fallback("aten.sort.stable", calls=2), fallback("aten.sort.default", "g2"), fallback("aten.cumsum.default"),
        fallback("addmm", "g3", kind="extern"),
    ]  # fmt: skip
    (finding,) = findings_of(report, "fallback-kernels")
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
    assert findings_of(report, "fallback-kernels") == []


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
    (finding,) = findings_of(report, "cudagraph-skip")
    assert (finding.severity, finding.evidence) == ("warning", ["g1"])
    assert advice in finding.advice
    assert "Found from" not in finding.advice and "File x" not in finding.advice


def test_the_line_that_keeps_a_cuda_graph_off() -> None:
    said = (
        'skipping cudagraphs due to mutated inputs (1 instances). Found from : \n   File "/net.py", line 7, in add\n  x'
    )
    report = empty_report()
    report.graphs = [Graph("g1", "0/0", location=Location("/net.py", 1), cudagraph_skip=said)]
    assert findings_of(report, "cudagraph-skip")[0].location == Location("/net.py", 7, function="add")


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
    (finding,) = findings_of(report, "gpu-kernel-failed")
    assert (finding.severity, finding.location) == ("error", at)
    assert "CUDA_LAUNCH_BLOCKING=1" in finding.advice and advice in finding.advice
