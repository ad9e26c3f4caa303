"""The rule on the memory of a compiled training step."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.report import Finding, Location
from dynalyze.report.measurements import KeptLine, StepMemory
from dynalyze.rules.rule import judge
from sample_measurements import measured, speedup
from sample_reports import clean_report

MEGABYTE = 1_000_000
FIRST, SECOND = Location("model.py", 12), Location("model.py", 13)


def found_of(memory: StepMemory | None, **changes: Any) -> list[Finding]:
    report = clean_report()
    report.measurements = [measured("default", 20.0, speedup(1.8, 1.7, 1.9), step_memory=memory, **changes)]
    return [finding for finding in judge(report) if finding.rule == "step-memory"]


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
