"""Errors that compiled code raises because of what the program asks of it, known by their message."""

from __future__ import annotations

import pytest

from dynalyze.report import Compilation, GraphBreak, Location, Outcome, Report
from dynalyze.rules.rule import judge
from sample_reports import empty_report

RULES = ("compiled-backward", "compiled-state-dict")
AT = Location("net.py", 12)


def ended_with(message: str) -> Report:
    report = empty_report()
    report.outcome = Outcome("failed", f"The program raised RuntimeError: {message}", 1, raised_at=AT)
    return report


def found(report: Report) -> list[tuple[str, Location | None, str]]:
    told = [each for each in judge(report) if each.rule in RULES]
    return [(each.rule, each.location, each.detail.config if each.detail else "") for each in told]


@pytest.mark.parametrize(
    ("message", "rule", "setting"),
    [
        (
            "This backward function was compiled with non-empty donated buffers which requires create_graph=False",
            "compiled-backward",
            "import torch._functorch.config\ntorch._functorch.config.donated_buffer = False",
        ),
        ("torch.compile with aot_autograd does not currently support double backward", "compiled-backward", ""),
        ('Unexpected key(s) in state_dict: "_orig_mod.0.weight"', "compiled-state-dict", ""),
    ],
)  # fmt: skip
def test_an_error_of_compiled_code_is_told_at_the_programs_line(message: str, rule: str, setting: str) -> None:
    assert found(ended_with(message)) == [(rule, AT, setting)]


def test_a_second_backward_is_told_where_the_backward_broke_a_compiled_graph() -> None:
    report = ended_with("Trying to backward through the graph a second time (or directly access saved tensors)")
    assert found(report) == []  # Nothing compiled: the program's own mistake.
    report.compilations = [Compilation("0/0", 0, "train", Location("net.py", 5), "compiled")]
    assert found(report) == []
    report.graph_breaks = [
        GraphBreak("b1", None, "call_method", "split", Location("net.py", 8, code="out.mean().backward()"), [])
    ]
    assert found(report) == [("compiled-backward", AT, "")]


@pytest.mark.parametrize("message", ["The size of tensor a must match", 'Missing key(s) in state_dict: "0.weight"'])
def test_of_other_errors_nothing_is_said(message: str) -> None:
    assert found(ended_with(message)) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, "TORCH_COMPILE_DISABLE=1"),
        ({"mode": "in_place"}, "plain `python`"),
        ({"mode": "object"}, ""),
        ({"compiled": "failed"}, ""),  # What failed is the compile, which another rule tells.
        ({"compiled": ""}, ""),
        ({"message": "torch.compile with aot_autograd does not currently support double backward"}, ""),
    ],
)
def test_how_to_know_whether_eager_fails_too(change: dict[str, str], told: str) -> None:
    report = ended_with(change.get("message", "The size of tensor a must match"))
    report.capture.mode = change.get("mode", "observed")  # type: ignore[assignment]
    if status := change.get("compiled", "compiled"):
        report.compilations = [Compilation("0/0", 0, "train", Location("net.py", 5), status)]  # type: ignore[arg-type]
    said = [(each.advice, each.location) for each in judge(report) if each.rule == "program-failed"]
    assert ([(told in action, where) for action, where in said] == [(True, AT)]) if told else not said
